"""Packets for hypothesis to make."""

from hypothesis import strategies as st

from overstory.wire.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
)

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
topics = st.one_of(
    st.sampled_from(["a", "a/b", "a/b/c", "/", "b//c", "$x/y", "é/ü", "𝄞"]),
    texts.filter(lambda text: text and "+" not in text and "#" not in text),
)
pairs = st.lists(st.tuples(st.one_of(st.sampled_from(["x", "price", "a"]), texts), texts), min_size=1, max_size=3)
ids = st.integers(1, 65535)
four = st.integers(0, 2**32 - 1)


def properties(**known: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional={**known, "user_properties": pairs})


message_properties = {
    "payload_format_indicator": st.booleans(),
    "message_expiry_interval": four,
    "content_type": st.one_of(st.sampled_from(["application/json", "x/y+json", "text/plain"]), texts),
    "response_topic": topics,
    "correlation_data": st.binary(max_size=5),
}
wills = st.builds(
    Will,
    topics,
    st.binary(max_size=8),
    st.integers(0, 2),
    st.booleans(),
    properties(**{**message_properties, "payload_format_indicator": st.just(True)}, will_delay_interval=four),
)
connects = st.builds(
    Connect,
    texts,
    keep_alive=st.integers(0, 65535),
    clean_start=st.booleans(),
    will=st.none() | wills,
    username=st.none() | texts,
    password=st.none() | st.binary(max_size=5),
    properties=properties(
        session_expiry_interval=four, receive_max=ids, topic_alias_max=ids, request_problem_info=st.booleans()
    ),
)
publishes = st.builds(
    lambda topic, payload, qos, retain, packet_id, duplicate, found: Publish(
        topic, payload, qos, retain, packet_id if qos else 0, duplicate and qos > 0, found
    ),
    topics,
    st.binary(max_size=300),
    st.integers(0, 2),
    st.booleans(),
    ids,
    st.booleans(),
    properties(**message_properties, topic_alias=ids, subscription_ids=st.lists(st.integers(1, 2**28 - 1), min_size=1)),
)
acks = st.builds(Ack, st.sampled_from([PUBACK, PUBREC, PUBREL, PUBCOMP]), ids, st.just(0), properties(reason_str=texts))
asked = st.builds(
    Asked, st.sampled_from(["a", "a/#", "+/b", "#"]), st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2)
)
packets: st.SearchStrategy[Packet] = st.one_of(
    connects,
    publishes,
    acks,
    st.builds(ConnAck, st.sampled_from([0, 0x84, 0x95]), st.booleans(), properties(server_keep_alive=ids)),
    st.builds(
        Subscribe,
        ids,
        st.lists(asked, min_size=1, max_size=3).map(tuple),
        properties(subscription_ids=st.lists(st.integers(1, 99), min_size=1, max_size=1)),
    ),
    st.builds(SubAck, ids, st.lists(st.sampled_from([0, 1, 2, 0x8F]), min_size=1).map(tuple), properties()),
    st.builds(Unsubscribe, ids, st.lists(st.sampled_from(["a", "b/#"]), min_size=1).map(tuple), properties()),
    st.builds(UnsubAck, ids, st.lists(st.sampled_from([0, 0x11]), min_size=1).map(tuple), properties()),
    st.just(PingReq()),
    st.just(PingResp()),
    st.builds(Disconnect, st.sampled_from([0, 0x82]), properties(reason_str=texts)),
)

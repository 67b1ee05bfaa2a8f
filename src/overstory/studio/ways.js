// One event's way through the plan: the hops in the order in which the copies arrive, one after the other.
let walked = 0; // hops of the way that are shown

const hopsOf = (way) => Array.from({ length: way.hops.length / 4 }, (_, at) => way.hops.slice(4 * at, 4 * at + 4))
  .sort((a, b) => a[2] - b[2]);
const servedBy = (way) => new Map(Array.from({ length: way.served.length / 2 }, (_, at) => [way.served[2 * at], way.served[2 * at + 1]]));

function describeWay(way) {
  const event = data.events[$("chosen").value.slice(EVENT.length)], served = servedBy(way);
  const brokers = [...served.keys()].filter((broker) => served.get(broker)).length;
  const got = [...served.values()].reduce((sum, value) => sum + value, 0);
  const unwanted = hopsOf(way).filter((hop) => !hop[3]).length;
  const idle = unwanted ? `, ${count(unwanted)} of them for nobody` : "";
  return `${event.label}. Published by ${event.publisher} at ${names[way.entry]}; it crosses ${counted(hopsOf(way).length, "link")}${idle}, ` +
    `and ${counted(got, "subscription")} at ${counted(brokers, "broker")} get it.`;
}

/** Draws the way as far as it has been walked, and marks the last hop in the list. */
function walkTo(at) {
  const way = chosenWay(), hops = hopsOf(way), served = servedBy(way);
  walked = Math.max(0, Math.min(at, hops.length));
  const between = ([from, to]) => `M${xOf(every, from)} ${yOf(every, from)}L${xOf(every, to)} ${yOf(every, to)}`;
  $("way").setAttribute("d", hops.slice(0, walked).map(between).join(""));
  $("hop").setAttribute("d", walked ? between(hops[walked - 1]) : "");
  const reached = [way.entry, ...hops.slice(0, walked).map((hop) => hop[1])];
  $("members").setAttribute("d", [...new Set(reached)].filter((broker) => served.get(broker)).map(dot).join(""));
  $("spot").setAttribute("d", dot(walked ? hops[walked - 1][1] : way.entry));
  $("step").textContent = `hop ${walked} of ${hops.length}`;
  [...$("hops").querySelectorAll("li button")].forEach((item, place) => {
    item.setAttribute("aria-current", place === walked);
    const list = $("hops").querySelector("ol");
    if (place === walked) list.scrollTop = item.offsetTop - list.offsetTop - list.clientHeight / 2;
  });
}

function showWay(way) {
  $("hops").hidden = way === undefined;
  $("way").setAttribute("d", "");
  $("hop").setAttribute("d", "");
  if (way === undefined) return;
  const served = servedBy(way);
  const gets = (broker) => (served.get(broker) ? `, where ${counted(served.get(broker), "subscription")} ${served.get(broker) === 1 ? "gets" : "get"} it` : "");
  const words = [`published at ${names[way.entry]}${gets(way.entry)}`, ...hopsOf(way).map(([from, to, delay, wanted]) =>
    `${names[from]} → ${names[to]}, after ${count(delay)} ms${wanted ? gets(to) : ", for nobody"}`)];
  const items = words.map((text, at) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => walkTo(at));
    item.append(button);
    return item;
  });
  $("hops").querySelector("ol").replaceChildren(...items);
  walkTo(hopsOf(way).length);
}

function startWays() {
  $("back").addEventListener("click", () => walkTo(walked - 1));
  $("on").addEventListener("click", () => walkTo(walked + 1));
}

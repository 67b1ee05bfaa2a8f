"""Bytes: MQTT's packets in and out, for MQTT 5 and 3.1.1, and headers. Nothing here knows of sockets or of sessions.

In reading order: ``packets`` has a struct for each kind of packet; ``properties`` has MQTT 5's properties as one
table; ``decode`` reads packets, ``encode`` writes them. ``topics`` turns topic filters into filters, ``attributes``
messages into events. ``steering`` has the headers of steered frames.
"""

"""Tamara's core: users, topics and clusters as pure state machines. Messages in, messages out; no I/O, no clock."""

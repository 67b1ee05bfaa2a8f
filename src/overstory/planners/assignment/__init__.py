"""Which broker serves each of very many subscribers: the problem of Yu, Agarwal and Yang."""

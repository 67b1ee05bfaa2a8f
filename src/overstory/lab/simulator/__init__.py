"""A deterministic discrete-event simulator: brokers with queues and service times around the product's own routers.

In reading order: ``topology`` and ``workload`` are what the paper's figures show, ``engine`` lets time pass,
``record`` is what happened, ``pruning`` runs one cell of an experiment.
"""

"""The Python door: what ``import overstory as ov`` opens on, as thin wrappers of what the command line uses.

``making`` gives scenarios, ``scenario`` plans, ``plan`` scores, ``comparing`` tables; ``graphs`` hands networks over to
NetworkX and rustworkx, ``plotting`` to matplotlib; ``engine`` keeps one Spark session warm for all of them.
"""

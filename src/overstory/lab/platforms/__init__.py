"""Topic-based platforms under one interface, for layers such as Tamara: Scribe over Pastry, and Overstory's routers."""

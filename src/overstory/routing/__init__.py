"""How events travel: the law, and the router that obeys it."""

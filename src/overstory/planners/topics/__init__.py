"""Which topics share a tree, so that keeping trees alive costs little: Tamara, its baselines, and a search of ours."""

"""An index of many filters: which of them match an event, and which cover another filter.

In reading order: ``batch`` takes events as columns; ``encoding`` turns boxes into what kernels compare; ``memory``
holds it; ``index`` is the fast index and ``reference`` the plain one with the same interface; ``frozen`` is the fast
one as a file; ``covering`` knows which filters hold which others.
"""

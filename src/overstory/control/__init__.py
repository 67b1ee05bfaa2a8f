"""The coordinator: observes a running network, plans, decides whether a plan is worth its change, and installs it.

What decides is pure (``deciding``); what talks to brokers is the shell around it.
"""

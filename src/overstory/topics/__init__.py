"""Clusters of topics under applications that do not notice: a layer over platforms that people run."""

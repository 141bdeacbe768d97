"""Volcano in Python: a batch system for Kubernetes, and a whole cluster in one process."""

__version__ = "0.1.0"

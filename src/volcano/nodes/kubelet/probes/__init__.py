"""Probes and lifecycle hooks: scheduling, execution, results."""

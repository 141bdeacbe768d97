"""Re-runs of the scheduler on a copy of a cluster."""

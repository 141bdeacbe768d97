"""Reports of a cycle: decisions, conditions, events, metrics, log lines."""

"""Results of a cycle for people: conditions, events, metrics, log lines."""

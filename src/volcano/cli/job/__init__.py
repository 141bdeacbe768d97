"""`vcctl job` and `vcctl submit`."""

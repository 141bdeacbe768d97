"""Accounting of pod runs: a database of who used which resources for how long, and the queries on it."""

"""Shares of queues: what the plugins `proportion` and `capacity` have in common."""

"""Answers about a cluster that are verified by running the scheduler on a changed copy of it."""

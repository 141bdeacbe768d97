"""Simulator: the scheduler's own cycles over a trace, under a virtual clock."""

"""Placement: nodes for tasks, one by one, in runs of identical ones, and for whole gangs."""

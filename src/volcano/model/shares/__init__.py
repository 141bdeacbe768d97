"""Shares of queues: the tree of queues, division by weight, and declared amounts."""

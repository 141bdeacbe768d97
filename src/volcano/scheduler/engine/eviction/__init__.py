"""Eviction: the pods that may make room for others, and as few of them as needed."""

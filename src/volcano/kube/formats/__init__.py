"""Formats of names, strings and patterns, as Kubernetes validates them."""

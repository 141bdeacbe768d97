"""Isolation of containers from this host: none (plain processes) or namespaces."""

"""Rows for people: pure functions from Kubernetes objects to frozen values, for commands and the dashboard."""

"""Admission chain: built-in plugins and webhooks."""

"""Admission rules of Volcano's webhooks: defaults and validation of its kinds."""

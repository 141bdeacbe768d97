"""Defaults and validation of Jobs."""

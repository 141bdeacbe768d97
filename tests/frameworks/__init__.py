"""Frameworks: their installation, and examples that run the real programs."""

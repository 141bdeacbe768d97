"""Patches and server-side apply: JSON, merge and strategic merge patches, managed fields."""

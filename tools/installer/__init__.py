"""Generators of the installer's parts."""

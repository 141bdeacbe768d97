"""Printers of built-in and custom kinds."""

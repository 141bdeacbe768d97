"""`vcctl queue`."""

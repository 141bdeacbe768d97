"""Backup, restoration and check of the data directory of a cluster."""

"""Versioned object store: journal, watch cache, pagination, selection."""

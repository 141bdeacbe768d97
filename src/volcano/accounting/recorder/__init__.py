"""Recorder of pod runs: events in, rows out."""

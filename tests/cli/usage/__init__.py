"""Tests of `vcctl usage` and the history of jobs."""

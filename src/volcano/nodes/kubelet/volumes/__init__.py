"""Volumes of pods: set up on this host's disk, updated, and mounted into containers."""

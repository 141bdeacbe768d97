"""Simulated nodes: node pools and the lifecycle of pods that are not executed."""

"""NUMA: layout of nodes, requests of pods, and the assignment of CPUs and devices."""

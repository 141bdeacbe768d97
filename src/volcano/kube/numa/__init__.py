"""NUMA topology of nodes: CPU sets, hints, assignments and the Numatopology object."""

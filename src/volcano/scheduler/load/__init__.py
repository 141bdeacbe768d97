"""Collection of the measured load of nodes, outside the scheduling cycle."""

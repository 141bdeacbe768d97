"""The packing experiment: how much of the GPUs of a cluster each placement policy can allocate."""

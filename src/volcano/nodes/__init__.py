"""What a kubelet does, for simulated nodes and for this host."""

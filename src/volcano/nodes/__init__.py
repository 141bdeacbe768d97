"""Nodes: the kubelet of this host, its container runtimes, and simulated nodes."""

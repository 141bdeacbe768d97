"""Kubelet: runs the pods that are bound to the nodes of this host."""

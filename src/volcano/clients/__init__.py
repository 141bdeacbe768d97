"""Clients over HTTP, and the kubeconfig that tells where to."""

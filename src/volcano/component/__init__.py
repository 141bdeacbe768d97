"""Common parts of the programs that serve a Kubernetes API server."""

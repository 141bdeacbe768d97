"""The client protocol, and the client over HTTP with kubeconfig and credentials."""

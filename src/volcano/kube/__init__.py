"""Kubernetes as plain values: kinds, manifests, errors, patches and the client protocol; and the controller
framework."""

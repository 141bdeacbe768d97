"""Kubernetes' API as plain values: kinds, manifests, names, quantities, selectors, errors and encodings."""

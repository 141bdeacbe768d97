"""Validation of the kinds of resource.k8s.io: claims, templates, device classes and slices."""

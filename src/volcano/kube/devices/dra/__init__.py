"""Dynamic Resource Allocation: device selectors and builders of resource.k8s.io objects."""

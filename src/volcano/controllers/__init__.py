"""Controllers of Volcano's kinds and Kubernetes' own, as reconcilers without I/O."""

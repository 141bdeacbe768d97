"""Parts without knowledge of Kubernetes: clock, log, metrics, YAML, work queue, HTTP."""

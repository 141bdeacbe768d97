"""Kubernetes' own controllers: garbage collection, namespaces, quotas, disruption budgets, workloads,
endpoints, nodes, volumes."""

"""The small controllers a cluster is not a cluster without: workloads, endpoints, node lifecycle, volumes."""

"""Pod Security admission: the Pod Security Standards of Kubernetes, by labels of namespaces."""

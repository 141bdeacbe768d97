"""HTTP clients of API servers, configured by kubeconfig."""

"""Proxies of the API server: to pods, Services and the kubelets of nodes."""

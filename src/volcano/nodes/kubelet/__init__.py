"""The kubelet of this host: what it takes to run the pods that the scheduler placed here."""

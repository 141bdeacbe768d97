"""proportion: queues share the cluster by weight, borrow what others leave, and give it back."""

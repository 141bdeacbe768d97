"""A whole cluster in one process: composition of all components."""

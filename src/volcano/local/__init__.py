"""One process that is a whole cluster."""

"""How much a container is kept apart from this host: not at all (plain), or in namespaces."""

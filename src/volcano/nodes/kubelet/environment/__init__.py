"""Environment of containers: variables, downward API, referenced objects."""

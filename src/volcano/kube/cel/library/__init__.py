"""Functions of CEL: the standard ones, cel-go's extensions for strings, lists, sets and optionals, Kubernetes' own."""

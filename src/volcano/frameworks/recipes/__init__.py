"""One module per framework, found by its name; each has a `RECIPE`."""

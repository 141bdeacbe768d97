"""One main() per process; wires everything."""

"""Container runtimes of this host; each implements `Runtime`."""

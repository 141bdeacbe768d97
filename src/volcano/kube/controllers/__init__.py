"""The controller framework: reconcilers without I/O, their runner, events and leader election."""

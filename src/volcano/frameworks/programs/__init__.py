"""Programs that recipes install beside a framework. They run in pods, with the Python of the framework."""

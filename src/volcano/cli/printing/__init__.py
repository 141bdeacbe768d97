"""Output of commands: tables, JSON, YAML, jsonpath, times, events."""

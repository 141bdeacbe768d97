"""Output of commands: tables, bars, JSON, YAML, jsonpath, times, colours."""

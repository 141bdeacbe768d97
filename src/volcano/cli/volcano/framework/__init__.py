"""`volcano frameworks`."""

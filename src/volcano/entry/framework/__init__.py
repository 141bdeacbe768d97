"""`volcano frameworks`, and operators that it has installed."""

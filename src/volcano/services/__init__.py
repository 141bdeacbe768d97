"""Use cases on a client and a clock, for the command line, the dashboard and the SDK."""

"""`volcano dashboard`, and the dashboard of `volcano up`."""

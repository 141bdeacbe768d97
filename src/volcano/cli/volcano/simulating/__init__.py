"""`volcano simulate`, `volcano config plan` and `volcano snapshot`."""

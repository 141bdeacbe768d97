"""`volcano simulate` and `volcano snapshot save`."""

"""A batch cluster as frozen facts."""

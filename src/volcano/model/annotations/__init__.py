"""Annotations with a format of their own: parsed and checked here for admission, controllers and scheduler."""

"""The life cycle of our kinds, as pure reconcilers."""

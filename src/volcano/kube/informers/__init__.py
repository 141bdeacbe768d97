"""List and watch into shared read-only caches."""

"""The keeper: a small process of its own that starts containers, keeps their logs and outlives `volcano`."""

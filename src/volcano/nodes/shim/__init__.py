"""The shim: a small process of its own that starts containers, keeps their logs and outlives `volcano`."""

"""Benchmarks: ratios measured side by side in one run, and how cost grows with size."""

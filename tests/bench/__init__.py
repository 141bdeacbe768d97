"""Tests of the benchmarks' own computations."""

"""Estimates of when waiting jobs start."""

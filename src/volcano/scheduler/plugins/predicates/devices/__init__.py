"""Dynamic Resource Allocation: which devices satisfy the claims of pods, and which of them are in use."""

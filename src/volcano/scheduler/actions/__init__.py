"""What a scheduling cycle does, one action per module."""

"""What a scheduling cycle asks, one plugin per module."""

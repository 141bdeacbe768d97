"""What may be written, and the defaults that complete it."""

"""History: what the last cycles decided, in a bounded ring buffer."""

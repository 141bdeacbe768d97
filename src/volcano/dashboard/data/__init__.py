"""What pages show, computed from objects: pure functions without a browser."""

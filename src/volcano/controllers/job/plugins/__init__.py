"""Job plugins: one file each, found by `loading`."""

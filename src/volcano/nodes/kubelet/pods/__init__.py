"""Pod workers: sandbox and container start, lifecycle, status, adoption after a restart."""

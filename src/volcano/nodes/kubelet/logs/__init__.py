"""Container logs: files on disk, rotation, follow."""

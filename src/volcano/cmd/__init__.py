"""Programs: one main function per process, which composes its parts."""

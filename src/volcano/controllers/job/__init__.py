"""The Job controller: one manifest becomes a gang of pods, restarts, completes and cleans up by policy."""

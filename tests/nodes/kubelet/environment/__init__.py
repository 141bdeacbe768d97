"""Environment, volumes and names of pods."""

"""The pages of the scheduler: cycles, decisions about a pod, evictions and the configuration."""

"""The volumes of pods: made on this host's disk, kept up to date, handed to containers as mounts."""

"""NVIDIA GPUs of this host: inventory, health and load, and the device files that containers need."""

"""What pods are given: environment, volumes and names."""

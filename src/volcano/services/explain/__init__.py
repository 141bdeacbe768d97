"""Explanations: why a job waits, why a pod is where it is, how a share comes about; now and in the past."""

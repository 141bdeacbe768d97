"""Submission of a job from a command line: its manifest, and the files of its pods."""

"""Notifications of jobs: CloudEvents to URLs that Jobs and queues name."""

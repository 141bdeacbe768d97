"""Cluster DNS: records of Services and pods, message format, server."""

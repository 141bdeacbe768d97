"""Seeded fuzzing of a whole cluster: whatever clients send, it answers, keeps running and stays responsive."""

"""Verbs and strategies of every served kind, between endpoints and storage."""

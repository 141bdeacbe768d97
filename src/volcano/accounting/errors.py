"""Errors of the database."""


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""

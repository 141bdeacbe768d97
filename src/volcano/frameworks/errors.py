"""Errors of the installation of frameworks."""


class NotAvailable(Exception):
    """A framework cannot be installed on this host; the message says why and what would help."""

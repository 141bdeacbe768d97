"""Errors of the commands of `volcano`."""


class CommandError(Exception):
    """The command failed; the message says why and what would help."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code

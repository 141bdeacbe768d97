"""Text of the cluster on a screen."""


def printable(text: str) -> str:
    """Text on one line without control characters, which could change the terminal's state."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)

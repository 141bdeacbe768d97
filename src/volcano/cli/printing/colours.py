"""The few styles we use, and what phases look like in them."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "reverse": "7",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bright-black": "90",
    "bright-red": "91",
    "bright-green": "92",
    "bright-yellow": "93",
    "bright-blue": "94",
    "bright-magenta": "95",
    "bright-cyan": "96",
}

# The phases and states of everything we print, by what they mean to a reader.
_MEANING = {
    "green": ("Running", "Open", "Inqueue", "Restarting"),
    "cyan": ("Completed", "Succeed", "Succeeded"),
    "yellow": (
        "Pending", "Suspended", "Aborting", "Aborted", "Closing", "Terminating", "Completing", "Restarting",
    ),
    "red": ("Failed", "Error", "Unknown", "Terminated", "CrashLoopBackOff", "ImagePullBackOff", "OOMKilled"),
    "dim": ("Closed",),
}  # fmt: skip
_BY_WORD = {word: style for style, words in _MEANING.items() for word in words}


def paint(text: str, *styles: str) -> str:
    """The text in the styles named, and plain again after it."""
    codes = ";".join(_CODES[style] for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def style_of(phase: str) -> str:
    """The style of a phase or state; empty when it has none."""
    return _BY_WORD.get(phase, "")

"""Styles of text and of phases."""

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

# Style of every phase and state that is printed.
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
    """Text in the given styles, followed by a reset."""
    codes = ";".join(_CODES[style] for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def style_of(phase: str) -> str:
    """Style of a phase or state; empty if it has none."""
    return _BY_WORD.get(phase, "")

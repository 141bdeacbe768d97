"""Regular expressions with the syntax and the linear time of RE2, as in Kubernetes.

Python's own `re` has another syntax and takes exponential time for patterns such as `^(a+)+$`.
"""

import re
from functools import lru_cache

import re2

# Longer ones are not compiled: compilation is linear, but takes up to 30 KB and 0.1 ms per character.
LONGEST_PATTERN = 10_000
# Most characters of the pattern times characters of the text: searching takes up to a second for this many.
MOST_WORK = 1_000_000_000
# The names that Go's regular expressions have for errors of RE2.
_GO_NAMES = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid character class": "invalid character class range",
}
# Results for texts of this length are cached: quantities and names are the same in many objects.
_SHORT = 64
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The pattern is not valid in RE2."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_search", "_search_short", "source")

    def __init__(self, source: str) -> None:
        """Raises `PatternError`."""
        self.source = source
        if len(source) > LONGEST_PATTERN:
            raise PatternError(f"pattern of {len(source)} characters; at most {LONGEST_PATTERN} are allowed")
        if _SINGLE_BYTE.search(source):  # RE2 has it, Go and Kubernetes do not
            raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
        try:
            self._search = re2.compile(_encoded(source), _options()).search
        except re2.error as error:
            raise PatternError(f"error parsing regexp: {_reason(error)}") from None
        search = self._search
        self._search_short = lru_cache(maxsize=256)(lambda text: search(_encoded(text)) is not None)

    def contains(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text; false for a text that takes too long to search."""
        if len(text) <= _SHORT:
            return self._search_short(text)
        if len(text) * len(self.source) > MOST_WORK:
            return False
        return self._search(_encoded(text)) is not None

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The matches from left to right, at most `limit` of them unless it is negative."""
        found: list[str] = []
        encoded, at, previous_end = _encoded(text), 0, -1
        while at <= len(encoded) and (limit < 0 or len(found) < limit):
            match = self._search(encoded, at)
            if match is None:
                break
            start, end = match.span()
            if (
                start < end or start != previous_end
            ):  # an empty match next to the last one is skipped, as in Go
                found.append(encoded[start:end].decode("utf-8", "replace"))
            previous_end = end
            at = end if end > start else _next_character(encoded, end)
        return found


@lru_cache(maxsize=512)
def compiled(source: str) -> Pattern:
    """The compiled pattern. Raises `PatternError`."""
    return Pattern(source)


def _options() -> "re2.Options":
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # groups would take memory for each state of the search
    return options


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _next_character(encoded: bytes, at: int) -> int:
    at += 1
    while at < len(encoded) and encoded[at] & 0xC0 == 0x80:
        at += 1
    return at


def _reason(error: Exception) -> str:
    """The reason in the words of Go's regular expressions."""
    argument = error.args[0] if error.args else ""
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(argument)
    name, colon, shown = text.partition(": ")
    name = _GO_NAMES.get(name, name)
    return f"{name}: `{shown}`" if colon else name

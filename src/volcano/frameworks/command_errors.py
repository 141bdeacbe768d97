"""Reasons why a command of an installation failed, from its output."""

import re
from collections.abc import Sequence
from pathlib import Path

# Patterns of output and the sentence for each, the most telling first.
SENTENCES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        "no space left on the disk; free some space, or set VOLCANO_FRAMEWORKS to a directory on another disk",
    ),
    (
        re.compile(r"No matching distribution found for (?P<what>[^\s(]+)"),
        "package {what} is not available from the configured package index for this Python",
    ),
    (
        re.compile(r"Could not find artifact (?P<what>\S+)"),
        "artifact {what} is not available from the configured Maven repository",
    ),
    (
        re.compile(r"(?P<what>\S+@\S+): .*(?:40[34]|410|not found|forbidden|Gone)", re.IGNORECASE),
        "Go module {what} is not available from the configured module proxy",
    ),
    (
        re.compile(
            r"Temporary failure in name resolution|Name or service not known|Connection refused|"
            r"Network is unreachable|no such host|Max retries exceeded|Read timed out|i/o timeout"
        ),
        "the package index cannot be reached; check the network, or install on a host that has one",
    ),
)
LAST_LINES = 3


def explain_failure(command: Sequence[str], code: int, output: str) -> str:
    """`package x is not available ...`, or the last lines of the output where no reason is known."""
    for pattern, sentence in SENTENCES:
        match = pattern.search(output)
        if match is not None:
            return sentence.format(**match.groupdict())
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    tail = " | ".join(lines[-LAST_LINES:]) or "it printed nothing"
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return f"`{Path(command[0]).name}` {how}: {tail}"

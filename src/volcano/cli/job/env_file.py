"""Dotenv files: `NAME=value` lines with comments, quotes and `export`."""

import re
from pathlib import Path

from volcano.cli.errors import UsageError

_NAME = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN = re.compile(r"[^\n]*")
_REST = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: str) -> dict[str, str]:
    """Variables of a file, later lines overriding earlier ones; raises UsageError that names the line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"--env-file: {path}: is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"--env-file: {path}: {error.strerror}") from None
    return parse_env_file(text, path)


def parse_env_file(text: str, path: str) -> dict[str, str]:
    """Values in single quotes are literal; double quotes know \\n, \\t, \\" and \\\\ and may span lines."""
    found: dict[str, str] = {}
    text = text.replace("\r\n", "\n")
    position = 0
    while position < len(text):
        if blank := _REST.match(text, position):
            position = blank.end()
            continue
        indented = position + len(text[position:]) - len(text[position:].lstrip(" \t"))
        line = text.count("\n", 0, position) + 1
        name = _NAME.match(text, indented)
        if name is None:
            shown = text[position:].partition("\n")[0].strip()
            raise UsageError(f"--env-file: {path}:{line}: {shown[:40]!r} must be NAME=value")
        value, position = _value(text, name.end(), f"--env-file: {path}:{line}: {name[1]}")
        found[name[1]] = value
    return found


def _value(text: str, start: int, where: str) -> tuple[str, int]:
    quote = text[start : start + 1]
    if quote not in ("'", '"'):
        plain = _PLAIN.match(text, start)
        assert plain is not None  # matches the empty string, too
        return re.split(r"(?:^|\s)#", plain[0], maxsplit=1)[0].strip(), plain.end() + 1
    quoted = (_SINGLE if quote == "'" else _DOUBLE).match(text, start)
    if quoted is None:
        raise UsageError(f"{where}: the closing {quote} is missing")
    rest = _REST.match(text, quoted.end())
    if rest is None:
        raise UsageError(f"{where}: there is text after the closing {quote}")
    value = quoted[1]
    if quote == '"':
        value = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), value, flags=re.DOTALL)
    return value, max(rest.end(), quoted.end())

"""Tokens of CEL."""

import re
from typing import Any, NamedTuple

from volcano.kube.cel.errors import CompilationError, Issue
from volcano.kube.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_TOKEN = re.compile(
    r"""
    (?P<space>(?:[\t\n\f\r ]+|//[^\n]*)+)
    |(?P<string>[rR]?[bB]?[rR]?(?:\"\"\"|'''|"|'))
    |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)|\d+[uU]?)
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\?\"'`])|x(?P<x>[0-9a-fA-F]{2})|X(?P<bigx>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"
    r"|U(?P<bigu>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>.?))",
    re.DOTALL,
)
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "?": "?", '"': '"',
    "'": "'", "`": "`",
}  # fmt: skip


class Token(NamedTuple):
    """`kind` is `literal`, `name`, `end` or the text of an operator."""

    kind: str
    offset: int
    value: Any = None


def tokens(source: str) -> list[Token]:
    """All tokens of an expression, with one of kind `end`. Raises `CompilationError`."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            if source[at] == "`":
                raise _error(source, at, "unsupported syntax: '`'")
            raise _error(source, at, f"Syntax error: token recognition error at: '{source[at]}'")
        start, at = at, match.end()
        if match.lastgroup == "string":
            value, at = _string(source, start, match["string"])
            found.append(Token("literal", start, value))
        elif match.lastgroup == "number":
            found.append(Token("literal", start, _number(source, start, match["number"])))
        elif match.lastgroup == "name":
            found.append(Token("name", start, match["name"]))
        elif match.lastgroup == "operator":
            found.append(Token(match["operator"], start, match["operator"]))
    found.append(Token("end", len(source)))
    return found


def _error(source: str, offset: int, message: str) -> CompilationError:
    return CompilationError(source, [Issue(offset, message)])


def _number(source: str, offset: int, text: str) -> int | float:
    """A number. The sign of a negative one is a token of its own: `parser` folds it into the literal."""
    if text[:2] == "0x" or text.rstrip("uU").isdigit():
        digits = text.rstrip("uU")
        value = int(digits, 16) if digits[:2] == "0x" else int(digits)
        if digits != text:
            if value > UINT_MAX:
                raise _error(source, offset, "invalid uint literal")
            return Uint(value)
        if value > -INT_MIN:  # one more than INT_MAX is valid after a minus sign
            raise _error(source, offset, "invalid int literal")
        return value
    return float(text)


def checked_int(source: str, offset: int, value: int) -> int:
    """An int literal with its sign applied. Raises `CompilationError` outside of 64 bits."""
    if not INT_MIN <= value <= INT_MAX:
        raise _error(source, offset, "invalid int literal")
    return value


def _string(source: str, start: int, opening: str) -> tuple[str | bytes, int]:
    prefix = opening.rstrip("\"'").lower()
    quote = opening[len(prefix) :]
    begin = start + len(opening)
    raw = "r" in prefix
    at = begin
    while True:
        end = source.find(quote, at)
        if end < 0 or (len(quote) == 1 and "\n" in source[begin:end]):
            raise _error(
                source, start, f"Syntax error: token recognition error at: '{source[start : start + 20]}'"
            )
        if raw or not _is_escaped(source, begin, end):
            break
        at = end + 1
    body = source[begin:end]
    is_bytes = "b" in prefix
    if not raw:
        body = _ESCAPE.sub(lambda match: _unescaped(source, begin, match, is_bytes), body)
    if is_bytes:
        # Escapes of bytes were replaced by characters of a private range, which stand for single bytes.
        return b"".join(_byte_or_text(character) for character in body), end + len(quote)
    return body, end + len(quote)


def _is_escaped(source: str, begin: int, at: int) -> bool:
    slashes = 0
    while at - slashes - 1 >= begin and source[at - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


_BYTE_BASE = 0xF0000


def _byte_or_text(character: str) -> bytes:
    code = ord(character)
    if _BYTE_BASE <= code < _BYTE_BASE + 256:
        return bytes([code - _BYTE_BASE])
    return character.encode("utf-8", "surrogatepass")


def _unescaped(source: str, begin: int, match: re.Match[str], is_bytes: bool) -> str:
    if match["simple"]:
        return _SIMPLE[match["simple"]]
    if match["bad"] is not None:
        raise _error(source, begin + match.start(), "unable to unescape string")
    if match["octal"]:
        code = int(match["octal"], 8)
    else:
        code = int(match["x"] or match["bigx"] or match["u"] or match["bigu"], 16)
    if is_bytes:
        if match["u"] or match["bigu"]:
            raise _error(source, begin + match.start(), "unable to unescape string")
        return chr(_BYTE_BASE + code)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise _error(source, begin + match.start(), "invalid unicode code point")
    return chr(code)

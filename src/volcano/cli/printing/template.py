"""kubectl's jsonpath templates: text, `{.path}`, `{"literal"}` and `{range .path}...{end}`."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from volcano.kube.api.jsonpath import JsonPath, compile_path

_PIECE = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}|([^{}]+)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Range:
    path: JsonPath
    body: "tuple[_Part, ...]"


_Part = str | JsonPath | _Range


class Template:
    """Compiled template. Raises ValueError if it is invalid."""

    def __init__(self, text: str) -> None:
        pieces = _pieces(text)
        self._parts = _parts(pieces, text, inner=False)

    def render(self, value: Any) -> str:
        """Renders the template for one object."""
        return _render(self._parts, value)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Pieces of a template, last first: each a text and whether it was in braces."""
    if "{" not in text:
        text = f"{{{text}}}"
    pieces, position = [], 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if not found:
            raise ValueError(
                f"jsonpath {text!r}: not understood from {text[position:]!r} on; braces must be closed"
            )
        pieces.append((found.group(1), True) if found.group(1) is not None else (found.group(2), False))
        position = found.end()
    return pieces[::-1]


def _parts(pieces: list[tuple[str, bool]], text: str, *, inner: bool) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    while pieces:
        piece, in_braces = pieces.pop()
        word = piece.strip()
        if not in_braces:
            parts.append(piece)
        elif word == "end":
            if not inner:
                raise ValueError(f"jsonpath {text!r}: {{end}} without {{range}}")
            return tuple(parts)
        elif word.startswith("range "):
            path = compile_path(word.removeprefix("range "))
            parts.append(_Range(path, _parts(pieces, text, inner=True)))
        elif word[:1] in ("'", '"'):
            parts.append(_literal(word, text))
        else:
            parts.append(compile_path(word))
    if inner:
        raise ValueError(f"jsonpath {text!r}: {{range}} without {{end}}")
    return tuple(parts)


def _literal(word: str, text: str) -> str:
    try:
        quoted = word if word[0] == '"' else f'"{word[1:-1]}"'
        return str(json.loads(quoted))
    except ValueError:
        raise ValueError(f"jsonpath {text!r}: {word} is no text in quotes") from None


def _render(parts: Sequence[_Part], value: Any) -> str:
    written = []
    for part in parts:
        if isinstance(part, str):
            written.append(part)
        elif isinstance(part, _Range):
            written += [_render(part.body, each) for each in part.path.find(value)]
        else:
            written.append(" ".join(_text(found) for found in part.find(value)))
    return "".join(written)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

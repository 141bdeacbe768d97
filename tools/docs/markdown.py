"""Tables and text in Markdown."""

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Text inside a table: one line, without column separators."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def page(title: str, introduction: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", introduction, *parts]) + "\n"

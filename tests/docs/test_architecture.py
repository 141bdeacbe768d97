"""The table that follows a Job through the code names functions that exist."""

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| .* \| `(src/volcano/[\w/.]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
ROWS = ROW.findall((TOP / "docs" / "architecture.md").read_text())


def defined(path: Path) -> set[str]:
    """Functions and classes of a module, and methods as `Class.method`."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    top = [node for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]
    methods = {
        f"{outer.name}.{inner.name}"
        for outer in top
        if isinstance(outer, ast.ClassDef)
        for inner in outer.body
        if isinstance(inner, kinds)
    }
    return {node.name for node in top} | methods


def test_the_rows_are_numbered_from_one() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 25


@pytest.mark.parametrize(("number", "path", "name"), ROWS)
def test_each_row_names_a_function_of_its_file(number: str, path: str, name: str) -> None:
    assert name in defined(TOP / path)

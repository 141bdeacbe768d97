"""The page of the architecture names the packages and layers that exist, and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.contracts.test_layers import LAYERS

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "architecture.md").read_text()
PACKAGE = re.compile(r"^\| `src/volcano/(\w+)/` \|", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| .* \| `(src/volcano/[\w/.]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)


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


def test_every_package_has_one_row() -> None:
    packages = sorted(path.parent.name for path in (TOP / "src" / "volcano").glob("*/__init__.py"))
    assert sorted(PACKAGE.findall(PAGE)) == packages


def test_the_packages_stand_in_the_order_of_their_layers() -> None:
    level = {name: depth for depth, names in enumerate(LAYERS[""]) for name in names}
    depths = [level[name] for name in PACKAGE.findall(PAGE)]
    assert depths == sorted(depths, reverse=True)


def test_the_rule_names_the_layers_of_the_test() -> None:
    rule = PAGE[PAGE.index("- **Layers.**") : PAGE.index("- **Decisions")].split("(`tests")[0]
    layers = [set(re.findall(r"`([\w.]+)`", part)) for part in rule.split("→")]
    modules = {path.stem for path in (TOP / "src" / "volcano").glob("*.py")}
    assert layers == [names - modules for names in LAYERS[""]]


def test_the_rows_are_numbered_from_one() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 40


@pytest.mark.parametrize(("number", "path", "name"), ROWS)
def test_each_row_names_a_function_of_its_file(number: str, path: str, name: str) -> None:
    assert name in defined(TOP / path)

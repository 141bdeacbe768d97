"""Broad exception handlers stand only at named guards, where a bug in one item must not stop a long-running loop."""

import ast
from collections.abc import Iterator
from pathlib import Path

import volcano

ROOT = Path(volcano.__file__).parent
BROAD = {"Exception", "BaseException"}
# module: functions with a broad handler, each for the reason beside it.
GUARDS: dict[str, set[str]] = {}


def broad_handlers(path: Path) -> Iterator[str]:
    """Names of the functions that catch every exception."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if (isinstance(child, ast.ExceptHandler) and catches_all(child.type)) or (
                isinstance(child, ast.Call)
                and ast.unparse(child.func).split(".")[-1] == "suppress"
                and any(catches_all(argument) for argument in child.args)
            ):
                yield function
            yield from visit(child, name)

    yield from visit(ast.parse(path.read_text()), "<module>")


def catches_all(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    named = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(each).split(".")[-1] in BROAD for each in named)


def test_broad_handlers_stand_only_at_named_guards() -> None:
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        if functions := set(broad_handlers(path)):
            found[str(path.relative_to(ROOT))] = functions
    assert found == GUARDS

"""Imports point downwards: a package imports the layers below its own, never its neighbours, never upwards."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano

ROOT = Path(volcano.__file__).parent
TESTS = Path(__file__).parents[1]
LONGEST = 500
LAYERS: list[set[str]] = [
    {"entry"},
    {"cli", "dashboard", "simulator"},
    {"local"},
    {"scheduler", "controllers", "admission", "apiserver", "nodes", "clients"},
    {"model"},
    {"kube"},
    {"net"},
    {"clock", "metrics", "log"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


def imported_packages(path: Path) -> Iterator[str]:
    """The top-level packages of ours that a module imports, however the import is written."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.startswith("volcano."):
                        yield alias.name.split(".")[1]
            case ast.ImportFrom(level=0, module="volcano", names=names):
                yield from (alias.name for alias in names if alias.name in LEVEL)
            case ast.ImportFrom(level=0, module=str(module)) if module.startswith("volcano."):
                yield module.split(".")[1]
            case ast.ImportFrom(level=level, module=module) if level > 0:
                package = path.relative_to(ROOT).parts[:-level]
                target = [*package, *(module.split(".") if module else [])]
                yield from ([target[0]] if target else [alias.name for alias in node.names])


def violations(paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {target}"
        for path in paths
        for target in imported_packages(path)
        if (package := path.relative_to(ROOT).parts[0].removesuffix(".py")) != target
        and LEVEL[target] <= LEVEL[package]
    ]


def modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def test_imports_point_downwards() -> None:
    assert violations(modules()) == []


@pytest.mark.parametrize(
    "line",
    ["import volcano.scheduler.loop", "from volcano import scheduler", "from volcano.scheduler import loop"],
)
def test_every_way_of_importing_is_caught(line: str, tmp_path: Path) -> None:
    offender = tmp_path / "offender.py"
    offender.write_text(line)
    assert list(imported_packages(offender)) == ["scheduler"]


def test_every_package_has_a_layer() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in modules()} <= LEVEL.keys()


@pytest.mark.parametrize("folder", [ROOT, TESTS], ids=["modules", "their tests"])
def test_modules_are_short(folder: Path) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in folder.rglob("*.py")}
    assert [str(path.relative_to(folder)) for path, lines in lengths.items() if lines > LONGEST] == []


def test_every_module_says_what_it_is() -> None:
    silent = [str(p.relative_to(ROOT)) for p in modules() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []

"""Console scripts, commands of the chart, targets of the Makefile and programs of our own name modules that exist."""

import importlib
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import volcano
from tools.installer.places import CHART, ROOT

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
PROGRAM = re.compile(r"program: ([\w-]+)\}")
STARTED = re.compile(r'(?:python -m |"-m",\s*")([\w.]+)')
MODULE = re.compile(r'^_MODULE(?:: Final)? = "([\w.]+)"', re.MULTILINE)
SOURCE = Path(volcano.__file__).parent


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_console_script_is_a_function(script: str) -> None:
    module, _, name = SCRIPTS[script].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_chart_starts_console_scripts() -> None:
    programs = {name for file in CHART.rglob("*.tpl") for name in PROGRAM.findall(file.read_text())}
    assert len(programs) >= 4
    assert programs <= SCRIPTS.keys()


def test_targets_of_the_makefile_run_modules_that_exist() -> None:
    assert [name for name in STARTED.findall((ROOT / "Makefile").read_text()) if not _exists(name)] == []


def test_processes_that_are_started_run_modules_that_exist() -> None:
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    started = {name for text in texts for name in (*STARTED.findall(text), *MODULE.findall(text))}
    ours = {name for name in started if name.startswith("volcano.")}
    assert len(ours) >= 5
    assert [name for name in sorted(ours) if not _exists(name)] == []


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None

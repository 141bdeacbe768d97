"""Documentation names files that exist, and prints imports that work."""

import importlib
import re
import warnings
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SOURCE = TOP / "src" / "volcano"
PAGES = [*(TOP / "docs").rglob("*.md"), TOP / "README.md", TOP / "CONTRIBUTING.md"]
# `scheduler/loop.py`, `src/volcano/nodes/kubelet/`, `tests/contracts/test_layers.py`, `docs/plugins.md`
FILE = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|yaml|json|conf|jsonl))?)`")
IMPORT = re.compile(r"^ *from (volcano[\w.]*) import ([\w, ]+)$", re.MULTILINE)
WITH_IMPORTS = [page for page in PAGES if IMPORT.search(page.read_text())]
# Written by a reader who follows the page.
EXAMPLES = {"src/volcano/scheduler/plugins/quiet_nodes.py", "tests/scheduler/plugins/test_quiet_nodes.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_named_files_exist(page: Path) -> None:
    named = set(FILE.findall(page.read_text())) - EXAMPLES
    ours = {
        name
        for name in named
        if (TOP / name.split("/")[0]).exists() or (SOURCE / name.split("/")[0]).exists()
    }
    assert [name for name in sorted(ours) if not any((base / name).exists() for base in (TOP, SOURCE))] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if IMPORT.search(page.read_text())], ids=lambda page: page.name
)
def test_printed_imports_work_without_a_warning(page: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for module, names in IMPORT.findall(page.read_text()):
            assert [
                name for name in names.split(", ") if not hasattr(importlib.import_module(module), name)
            ] == []

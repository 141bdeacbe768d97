"""The shim is small: the standard library and itself, nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

from volcano.nodes import shim

ROOT = Path(shim.__file__).parent


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module))
    return names


def test_the_shim_imports_the_standard_library_and_itself() -> None:
    foreign = {
        name
        for path in ROOT.rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("volcano.nodes.shim")
    }
    assert foreign == set()


def test_running_it_loads_nothing_else() -> None:
    script = "import sys, volcano.nodes.shim.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [name for name in loaded if name.startswith("volcano.") and name != "volcano.nodes"]
    assert ours
    assert all(name.startswith("volcano.nodes.shim") for name in ours)
    assert {"asyncio", "yaml", "msgspec"}.isdisjoint(loaded)

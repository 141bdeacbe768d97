"""An activated virtual environment is the Python of pods in every process runtime, wherever it is located."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.nodes.shim.rig import Rig
from volcano.nodes.runtimes.probe import probe
from volcano.nodes.shim.specs import Mode

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", list(Mode))
async def test_an_activated_virtual_environment_works(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probe(mode)
    if not found.available:
        pytest.skip(found.reason)
    root = tmp_path / "environment"
    venv.create(root, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = root / "lib" / version / "site-packages"
    (site / "installed.py").write_text("VALUE = 'installed'\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "editable.py").write_text("VALUE = 'editable'\n")
    (site / "editable.pth").write_text(f"{tmp_path / 'project'}\n")
    script = "import sys, installed, editable; print(sys.prefix, installed.VALUE, editable.VALUE)"
    on_host = subprocess.run(
        [str(root / "bin/python"), "-c", script], capture_output=True, text=True, check=True
    )
    monkeypatch.setenv("VIRTUAL_ENV", str(root))
    monkeypatch.setenv("PATH", f"{root / 'bin'}:/usr/bin:/bin")
    rig = Rig(tmp_path / "data", mode=mode, lifeline=True)
    await rig.open()
    try:
        environment = {"PATH": f"{root / 'bin'}:/usr/bin:/bin"}
        state = await rig.run("python", "-c", script, environment=environment)
        assert "\n".join(rig.output()) == on_host.stdout.strip() == f"{root} installed editable"
        assert state.exit_code == 0
    finally:
        await rig.close(keep=False)

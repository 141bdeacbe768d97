"""The fake engine, under both names."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes.runtimes.rig import Fake, install


@pytest.fixture(params=["podman", "docker"])
def fake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    name: str = request.param
    state = install(name, tmp_path, monkeypatch.setenv, os.environ["PATH"])
    found = Fake(name, state, tmp_path / "data")
    yield found
    for path in found.containers:
        pid = json.loads(path.read_text())["State"]["Pid"]
        if pid:
            os.killpg(pid, signal.SIGKILL)

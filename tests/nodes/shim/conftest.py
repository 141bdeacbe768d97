"""One shim for all these tests, which each test connects to; tests that end a shim start their own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.nodes.shim.rig import Rig, marked
from volcano.nodes.runtimes.process import ProcessRuntime, cleanup
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim.specs import Mode


@pytest.fixture(scope="package")
def shared_shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("shim")

    async def begin() -> None:
        runtime = ProcessRuntime(directory, Mode.PLAIN)
        await runtime.open()
        await runtime.close(keep=True)

    asyncio.run(begin())
    yield directory
    log = (directory / "shim" / "shim.log").read_text()
    asyncio.run(cleanup(directory))
    assert shim_pid(directory) == 0
    assert marked(directory) == []
    assert log == ""


@pytest.fixture
async def rig(shared_shim: Path) -> AsyncIterator[Rig]:
    rig = Rig(shared_shim)
    await rig.open()
    yield rig
    await rig.close(keep=True)
    assert rig.processes() == []


@pytest.fixture
def own_directory(tmp_path: Path) -> Iterator[Path]:
    """Data directory for a shim of the test's own; no process of it may be left."""
    yield tmp_path
    pid = shim_pid(tmp_path)
    left = marked(tmp_path)
    asyncio.run(cleanup(tmp_path))
    assert (pid, left) == (0, [])

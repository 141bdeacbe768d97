"""A node with a pod that sleeps, for all tests of a module."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.nodes.kubelet.streams.stage import Stage
from volcano.kube.api.manifest import Manifest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("cluster"))
    await stage.open()
    yield stage
    await stage.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell(stage: Stage) -> Manifest:
    return await stage.run("shell", "sleep", "600")

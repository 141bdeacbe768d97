"""Every server in turn."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.clients import OURS, Opened, real
from tests.contracts.rooms import SERVERS, Room, numbers
from volcano.kube.kinds import NAMESPACE


@pytest.fixture(params=SERVERS)
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    """A namespace on each server in turn."""
    opened: Opened
    if request.param == "real":
        opened = real(request.getfixturevalue("real_apiserver"))
    else:
        opened = OURS[request.param](tmp_path)
    async with opened as client:
        name = f"room-{next(numbers)}"
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield Room(client, name)

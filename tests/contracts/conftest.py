"""The fixture that runs a test on each server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.clients import OURS, Opened, real
from tests.contracts.namespaced_client import SERVERS, NamespacedClient, numbers
from volcano.kube.kinds import NAMESPACE


@pytest.fixture(params=SERVERS)
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NamespacedClient]:
    """A client with its own namespace, on each server."""
    opened: Opened
    if request.param == "real":
        opened = real(request.getfixturevalue("real_apiserver"))
    else:
        opened = OURS[request.param](tmp_path)
    async with opened as client:
        name = f"contract-{next(numbers)}"
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield NamespacedClient(client, name)

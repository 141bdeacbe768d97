"""Fixtures for all servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.clients import OURS, Opened, real
from tests.contracts.namespace_client import SERVERS, NamespaceClient, numbers
from volcano.kube.api.kinds import NAMESPACE


@pytest.fixture(params=SERVERS)
async def ns(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NamespaceClient]:
    """A namespace on each server."""
    opened: Opened
    if request.param == "real":
        opened = real(request.getfixturevalue("real_apiserver"))
    else:
        opened = OURS[request.param](tmp_path)
    async with opened as client:
        name = f"ns-{next(numbers)}"
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield NamespaceClient(client, name)

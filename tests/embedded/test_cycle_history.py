"""The record of cycles of a whole cluster: served by its API server, authorized, and kept over restarts."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import pod, podgroup
from tests.embedded.test_cluster import cluster, until
from volcano.base.clock import SystemClock
from volcano.embedded.cluster import LocalCluster
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import POD, POD_GROUP
from volcano.kube.client.connect import connect
from volcano.kube.client.credentials import Impersonation
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import Overrides, load_client_config

PATH = "/debug/scheduler/cycles"


def client_of(running: LocalCluster, user: str = "") -> HttpClient:
    acting = Overrides(impersonate=Impersonation(user, "", (), {})) if user else Overrides()
    settings = load_client_config(dict(os.environ), kubeconfig=str(running.kubeconfig), overrides=acting)
    return connect(settings, SystemClock())


async def entries(running: LocalCluster) -> list[dict[str, Any]]:
    client = client_of(running)
    try:
        reply = await client.raw("GET", f"{PATH}?job=default/big")
        return list(json.loads(reply.body)["entries"])
    finally:
        await client.close()


async def test_cycles_are_served_to_those_who_may_get_them_and_outlive_the_cluster(tmp_path: Path) -> None:
    async with cluster(tmp_path, durable=True) as running:
        for kind, manifest in (
            (POD_GROUP, podgroup("big", phase="Pending")),
            (POD, pod("big-0", 64, group="big")),
        ):
            manifest["metadata"] = {
                name: value
                for name, value in manifest["metadata"].items()
                if name in ("name", "namespace", "annotations")
            }
            manifest.pop("status")
            await running.client.create(kind, manifest)
        found = await until(lambda: _waits(running))
        assert found["code"] == "NodeTooSmall"
        stranger = client_of(running, "alice")
        try:
            with pytest.raises(Forbidden):
                await stranger.raw("GET", PATH)
        finally:
            await stranger.close()
    assert (tmp_path / "cycles" / "cycles.current").stat().st_mode & 0o777 == 0o600
    async with cluster(tmp_path, durable=True) as again:
        codes = [entry.get("code") for entry in await entries(again) if entry["what"] == "waits"]
        assert "NodeTooSmall" in codes


async def _waits(running: LocalCluster) -> dict[str, Any] | None:
    found = [entry for entry in await entries(running) if entry.get("code") == "NodeTooSmall"]
    return found[-1] if found else None

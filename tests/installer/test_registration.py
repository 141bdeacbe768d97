"""Webhook configurations created by an installer: the manager writes their CA bundle and nothing else."""

import base64
from typing import Any

from tests.cmd.test_webhooks import FLAGS, JOBS, bundle, cluster_of_ours
from volcano.cmd.webhooks import parse, register
from volcano.component.certificates import certificates
from volcano.kube.api.kinds import MUTATING_WEBHOOK, SECRET, VALIDATING_WEBHOOK
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Options, PatchType

INSTALLED = [*FLAGS, "--register-webhooks=false"]


def without_ca_bundle(configuration: dict[str, Any]) -> dict[str, Any]:
    return {
        webhook["name"]: {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": ""}}
        for webhook in configuration["webhooks"]
    }


async def test_only_the_ca_bundle_is_written() -> None:
    async with cluster_of_ours() as cluster:
        assert await register(parse(FLAGS), cluster.client, b"of the installer")
        selector = {"matchLabels": {"team": "batch"}}
        added = [{"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector}]
        options = Options(patch_type=PatchType.JSON)
        await cluster.client.patch(VALIDATING_WEBHOOK, Key("", JOBS), added, options=options)
        before = without_ca_bundle(await cluster.get(VALIDATING_WEBHOOK, JOBS))
        assert await register(parse(INSTALLED), cluster.client, b"of the manager")
        assert await bundle(cluster) == b"of the manager"
        after = await cluster.get(VALIDATING_WEBHOOK, JOBS)
        assert without_ca_bundle(after) == before
        assert after["webhooks"][0]["namespaceSelector"] == selector


async def test_the_same_ca_bundle_is_not_written_again() -> None:
    async with cluster_of_ours() as cluster:
        await register(parse(FLAGS), cluster.client, b"one")
        before = cluster.registry.store.version
        assert await register(parse(INSTALLED), cluster.client, b"one")
        assert cluster.registry.store.version == before


async def test_missing_configurations_are_not_created() -> None:
    async with cluster_of_ours() as cluster:
        assert not await register(parse(INSTALLED), cluster.client, b"one")
        assert await cluster.names(VALIDATING_WEBHOOK) == await cluster.names(MUTATING_WEBHOOK) == []


async def test_certificates_are_stored_in_the_secret_of_the_flag() -> None:
    async with cluster_of_ours() as cluster:
        flags = parse([*INSTALLED, "--certificate-secret=elsewhere"])
        made = await certificates(flags, cluster.client, cluster.clock)
        assert await cluster.names(SECRET) == ["elsewhere"]
        secret = await cluster.get(SECRET, "elsewhere", namespace="volcano-system")
        assert base64.b64decode(secret["data"]["ca.crt"]) == made.authority

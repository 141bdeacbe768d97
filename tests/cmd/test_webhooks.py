"""`vc-webhook-manager`: certificates made, shared and renewed, registration kept, flags checked."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.cluster import SmallCluster
from tests.cmd.loopback import ask, free_port
from tests.webhooks.reviews import job, task
from volcano.base.clock import SystemClock, VirtualClock
from volcano.base.http.tls import Credential, client_context, covers, expires_at, issued_by
from volcano.cmd.webhooks import parse, register, serve_reviews
from volcano.component.certificates import SECRET_NAME, Certificates, certificates
from volcano.kube.api.kinds import (
    HYPER_NODE,
    JOB,
    MUTATING_WEBHOOK,
    NAMESPACE,
    POD_GROUP,
    QUEUE,
    SECRET,
    VALIDATING_WEBHOOK,
)
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.resourcegroups import GroupsFile

DAY = 86_400.0
FLAGS = ["--webhook-namespace=volcano-system", "--webhook-service-name=admission"]
HOST = "admission.volcano-system.svc"
JOBS = "volcano-admission-service-jobs-validate"


@contextlib.asynccontextmanager
async def cluster_of_ours() -> AsyncIterator[SmallCluster]:
    async with SmallCluster() as cluster:
        await cluster.create(NAMESPACE, "volcano-system")
        yield cluster


async def shown(cluster: SmallCluster) -> Certificates:
    """What one replica would show."""
    return await certificates(parse(FLAGS), cluster.client, cluster.clock)


async def bundle(cluster: SmallCluster) -> bytes:
    """Whom the API server is told to trust."""
    configuration = await cluster.get(VALIDATING_WEBHOOK, JOBS)
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


async def test_two_replicas_share_one_certificate() -> None:
    async with cluster_of_ours() as cluster:
        first, second = await asyncio.gather(shown(cluster), shown(cluster))
        assert first == second
        assert covers(first.server.cert_pem, [HOST])
        assert issued_by(first.server.cert_pem, Credential(first.authority, b""))
        assert await cluster.names(SECRET) == [SECRET_NAME]
        assert await shown(cluster) == first, "nothing is made anew while it is good"


async def test_an_old_certificate_is_renewed_by_the_same_authority() -> None:
    async with cluster_of_ours() as cluster:
        before = await shown(cluster)
        cluster.clock.advance(300 * DAY)
        after = await shown(cluster)
        assert after.authority == before.authority
        assert after.server != before.server
        assert expires_at(after.server.cert_pem) > cluster.clock.now().wall + 300 * DAY
        assert await shown(cluster) == after


async def test_an_old_authority_is_replaced_and_still_trusted_for_the_sake_of_other_replicas() -> None:
    async with cluster_of_ours() as cluster:
        before = await shown(cluster)
        cluster.clock.advance(3000 * DAY)
        after = await shown(cluster)
        assert issued_by(after.server.cert_pem, Credential(after.authority, b""))
        assert after.authority.startswith(before.authority) is False
        assert after.authority.endswith(before.authority)


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param({"tls.crt": "bm9uc2Vuc2U="}, id="no certificate"),
        pytest.param({"ca.crt": "bm9uc2Vuc2U="}, id="no authority"),
        pytest.param({"tls.key": None}, id="no key"),
    ],
)
async def test_a_spoiled_secret_is_made_anew(spoiled: Manifest) -> None:
    async with cluster_of_ours() as cluster:
        before = await shown(cluster)
        await cluster.patch(SECRET, SECRET_NAME, {"data": spoiled}, namespace="volcano-system")
        after = await shown(cluster)
        assert after.server != before.server
        assert issued_by(after.server.cert_pem, Credential(after.authority, b""))


async def test_registration_follows_the_authority_and_comes_back_when_deleted() -> None:
    async with cluster_of_ours() as cluster:
        await register(parse(FLAGS), cluster.client, b"one")
        assert await bundle(cluster) == b"one"
        assert len(await cluster.names(MUTATING_WEBHOOK)) == 6
        await register(parse(FLAGS), cluster.client, b"two")
        assert await bundle(cluster) == b"two"
        await cluster.delete(VALIDATING_WEBHOOK, JOBS)
        await register(parse(FLAGS), cluster.client, b"two")
        assert await bundle(cluster) == b"two"


async def test_registering_again_without_a_change_writes_nothing() -> None:
    async with cluster_of_ours() as cluster:
        await register(parse(FLAGS), cluster.client, b"one")
        before = cluster.registry.store.version
        await register(parse(FLAGS), cluster.client, b"one")
        assert cluster.registry.store.version == before


def review(manifest: Manifest) -> bytes:
    resource = {"group": JOB.group, "version": JOB.version, "resource": JOB.plural}
    asked = {"uid": "u", "operation": "CREATE", "namespace": "default", "resource": resource}
    return orjson.dumps({"request": {**asked, "object": manifest}})


async def test_it_answers_over_tls_and_shows_the_renewed_certificate_without_a_restart() -> None:
    async with cluster_of_ours() as cluster:
        port = free_port()
        flags = parse([*FLAGS, "--listen-address=127.0.0.1", f"--port={port}"])
        # Certificates are judged by the machine's clock.
        clock = VirtualClock(SystemClock().now().wall)
        running = asyncio.create_task(serve_reviews(flags, cluster.client, clock))
        try:
            await cluster.rest()
            trusted = client_context(await bundle(cluster))
            status, body = await ask(
                port, "/jobs/validate", review(job(task(), task())), tls=trusted, host=HOST
            )
            assert status == 200
            assert "duplicated task name" in orjson.loads(body)["response"]["status"]["message"]
            await cluster.delete(SECRET, SECRET_NAME, namespace="volcano-system")
            before = await bundle(cluster)
            clock.advance(61)
            await cluster.rest()
            assert await bundle(cluster) != before
            renewed = client_context(await bundle(cluster))
            assert (await ask(port, "/healthz", tls=renewed, host=HOST))[0] == 200
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_podgroups_are_fetched_when_a_queue_is_to_become_a_parent() -> None:
    async with cluster_of_ours() as cluster:
        for name in ("root", "busy", "idle"):
            await cluster.create(QUEUE, name, spec={"weight": 1})
        await cluster.create(POD_GROUP, "at-work", spec={"minMember": 1, "queue": "busy"})
        port = free_port()
        flags = parse([*FLAGS, "--listen-address=127.0.0.1", f"--port={port}"])
        clock = VirtualClock(SystemClock().now().wall)
        running = asyncio.create_task(serve_reviews(flags, cluster.client, clock))
        try:
            await cluster.rest()
            trusted = client_context(await bundle(cluster))

            async def told(parent: str) -> str:
                spec = {"weight": 1, "parent": parent}
                asked = {
                    "uid": "u",
                    "operation": "CREATE",
                    "object": {"metadata": {"name": "child"}, "spec": spec},
                }
                resource = {"group": QUEUE.group, "version": QUEUE.version, "resource": QUEUE.plural}
                body = orjson.dumps({"request": {**asked, "resource": resource}})
                _, answered = await ask(port, "/queues/validate", body, tls=trusted, host=HOST)
                return str(orjson.loads(answered)["response"].get("status", {}).get("message", ""))

            assert "because of its PodGroups at-work" in await told("busy")
            assert await told("idle") == ""
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_hypernodes_are_fetched_when_a_job_names_a_tier() -> None:
    async with cluster_of_ours() as cluster:
        await cluster.create(QUEUE, "default", spec={"weight": 1}, status={"state": "Open"})
        member = {"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}
        await cluster.create(HYPER_NODE, "r0", spec={"tier": 1, "tierName": "rack", "members": [member]})
        port = free_port()
        flags = parse([*FLAGS, "--listen-address=127.0.0.1", f"--port={port}"])
        clock = VirtualClock(SystemClock().now().wall)
        running = asyncio.create_task(serve_reviews(flags, cluster.client, clock))
        try:
            await cluster.rest()
            trusted = client_context(await bundle(cluster))

            async def warned(tier: str) -> list[str]:
                wanted = {"mode": "hard", "highestTierName": tier}
                body = review(job(minAvailable=2, queue="default", networkTopology=wanted))
                _, answered = await ask(port, "/jobs/validate", body, tls=trusted, host=HOST)
                response = orjson.loads(answered)["response"]
                assert response["allowed"], response
                return list(response.get("warnings", ()))

            assert await warned("rack") == []
            (text,) = await warned("zone")
            assert 'no HyperNode has the tierName "zone"; known names: rack' in text
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param([], "--webhook-url", id="nowhere to be reached"),
        pytest.param([*FLAGS, "--enabled-admission=/jobs/admire"], "unknown service", id="no such service"),
        pytest.param([*FLAGS, "--port=70000"], "choose 1 to 65535", id="no such port"),
    ],
)
def test_flags_that_make_no_sense_end_the_program(
    flags: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(flags)
    assert text in capsys.readouterr().err


async def test_a_configuration_that_cannot_be_read_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text("resourceGroups: 3")
    async with cluster_of_ours() as cluster:
        with pytest.raises(SystemExit, match="resourceGroups"):
            await serve_reviews(parse([*FLAGS, f"--admission-conf={file}"]), cluster.client, cluster.clock)


async def test_configured_resource_groups_have_all_pods_reviewed(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text("resourceGroups: [{resourceGroup: gpu, schedulerName: volcano}]")
    async with cluster_of_ours() as cluster:
        await register(parse(FLAGS), cluster.client, b"ca", GroupsFile(file))
        (webhook,) = (await cluster.get(MUTATING_WEBHOOK, "volcano-admission-service-pods-mutate"))[
            "webhooks"
        ]
        assert "matchConditions" not in webhook
        file.write_text("resourceGroups: []")
        await register(parse(FLAGS), cluster.client, b"ca", GroupsFile(file))
        (webhook,) = (await cluster.get(MUTATING_WEBHOOK, "volcano-admission-service-pods-mutate"))[
            "webhooks"
        ]
        assert webhook["matchConditions"][0]["name"] == "our-scheduler"

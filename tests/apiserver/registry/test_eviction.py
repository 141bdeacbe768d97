"""Eviction and disruption budgets: who may go, and what a budget says of itself."""

from typing import Any

import pytest

from tests.apiserver.registries import namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.kube.api.errors import ApiError, TooManyRequests
from volcano.kube.api.kinds import NAMESPACE, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from volcano.kube.api.manifest import Key, Manifest, owner_reference
from volcano.kube.resources.disruption import DisruptionStatus, assess


async def ready() -> DirectClient:
    client = DirectClient(registry())
    await client.create(NAMESPACE, namespace("default"))
    return client


async def running(
    client: DirectClient, name: str, owner: Manifest | None = None, *, healthy: bool = True
) -> None:
    manifest = pod(name, nodeName="n1")
    manifest["metadata"]["labels"] = {"app": "web"}
    if owner is not None:
        manifest["metadata"]["ownerReferences"] = [owner_reference(owner)]
    await client.create(POD, manifest)
    ready_condition = {"type": "Ready", "status": "True" if healthy else "False"}
    status = {"status": {"phase": "Running", "conditions": [ready_condition]}}
    await client.patch(POD, Key("default", name), status, subresource="status")


async def budgeted(client: DirectClient, name: str = "keep", **spec: object) -> None:
    manifest = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    await client.create(POD_DISRUPTION_BUDGET, manifest)


async def replica_set(client: DirectClient, replicas: int) -> Manifest:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return await client.create(
        REPLICA_SET, {"metadata": {"name": "rs", "namespace": "default"}, "spec": spec}
    )


async def evict(client: DirectClient, name: str, **options: object) -> Manifest:
    eviction: Manifest = {"metadata": {"name": name, "namespace": "default"}}
    if options:
        eviction["deleteOptions"] = options
    return await client.create(POD, eviction, subresource="eviction")


async def test_evictions_stop_where_the_budget_does() -> None:
    client = await ready()
    for name in ("a", "b", "c"):
        await running(client, name)
    await budgeted(client, minAvailable=2)
    await evict(client, "a")
    evicted = await client.get(POD, Key("default", "a"))
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    (condition,) = [c for c in evicted["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert condition["reason"] == "EvictionByEvictionAPI"
    with pytest.raises(TooManyRequests) as refused:
        await evict(client, "b")
    assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.value.causes
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget keep needs 2 healthy pods and has 2 currently"
    assert "deletionTimestamp" not in (await client.get(POD, Key("default", "b")))["metadata"]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"minAvailable": "50%"}, True, id="half of four must stay"),
        pytest.param({"minAvailable": "70%"}, False, id="70% of four, rounded up, is three"),
        pytest.param({"maxUnavailable": 1}, False, id="one is missing already"),
        pytest.param({"maxUnavailable": 2}, True, id="two may be missing"),
        pytest.param({"maxUnavailable": "50%"}, True, id="half may be missing"),
    ],
)
async def test_shares_are_of_what_the_controller_asks_for(spec: dict[str, Any], allowed: bool) -> None:
    client = await ready()
    owner = await replica_set(client, 4)
    for name in ("a", "b", "c"):
        await running(client, name, owner)
    await budgeted(client, **spec)
    if allowed:
        await evict(client, "a")
    else:
        with pytest.raises(TooManyRequests):
            await evict(client, "a")


@pytest.mark.parametrize(
    ("policy", "minimum", "allowed"),
    [
        pytest.param(None, 1, True, id="enough are healthy without it"),
        pytest.param(None, 2, False, id="the application is disrupted already"),
        pytest.param("AlwaysAllow", 2, True, id="the budget lets unhealthy pods go"),
    ],
)
async def test_unhealthy_pods(policy: str | None, minimum: int, allowed: bool) -> None:
    client = await ready()
    await running(client, "good")
    await running(client, "bad", healthy=False)
    more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    await budgeted(client, minAvailable=minimum, **more)
    if allowed:
        await evict(client, "bad")
    else:
        with pytest.raises(TooManyRequests):
            await evict(client, "bad")


async def test_pods_that_do_not_run_are_evicted_whatever_the_budget() -> None:
    client = await ready()
    pending = pod("pending")
    pending["metadata"]["labels"] = {"app": "web"}
    await client.create(POD, pending)
    await budgeted(client, minAvailable=5)
    await evict(client, "pending")
    assert (await client.list(POD)).items == []


async def test_two_budgets_for_one_pod_are_an_error() -> None:
    client = await ready()
    await running(client, "a")
    await budgeted(client, "one", minAvailable=0)
    await budgeted(client, "two", minAvailable=0)
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
        await evict(client, "a")


async def test_an_eviction_may_be_rehearsed_and_may_name_its_pod() -> None:
    client = await ready()
    await running(client, "a")
    await evict(client, "a", dryRun=["All"])
    assert "deletionTimestamp" not in (await client.get(POD, Key("default", "a")))["metadata"]
    with pytest.raises(ApiError, match="does not match the UID in record"):
        await evict(client, "a", preconditions={"uid": "other"})
    await evict(client, "a", gracePeriodSeconds=0)
    assert (await client.list(POD)).items == []


def test_a_share_of_an_unknown_number_allows_nothing() -> None:
    budget = {"spec": {"maxUnavailable": 1}}
    lonely = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    standing = assess(budget, [lonely], lambda pod: None)
    assert standing == DisruptionStatus(0, 0, 1, 0, 'found no controller with a scale for pod "a"')

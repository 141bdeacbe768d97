"""What exactly is answered, to every client."""

import asyncio

import pytest

from tests.contracts.rooms import Room, bind
from volcano.kube import kinds
from volcano.kube.client import Options, PatchType
from volcano.kube.errors import (
    ApiError,
    BadRequest,
    Conflict,
    NotFound,
)
from volcano.kube.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, POD
from volcano.kube.manifest import Key, uid_of


async def test_a_deletion_answers_with_what_was_deleted(room: Room) -> None:
    created = await room.create(room.config())
    status = await room.client.delete(CONFIG_MAP, room.key("settings"))
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "settings", "kind": "configmaps", "uid": uid_of(created)}
    deployment = await room.create(room.deployment(), DEPLOYMENT)
    status = await room.client.delete(DEPLOYMENT, room.key("web"))
    assert status["details"] == {
        "name": "web",
        "group": "apps",
        "kind": "deployments",
        "uid": uid_of(deployment),
    }


@pytest.mark.parametrize(
    ("propagation", "finalizers"),
    [
        pytest.param("Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param("Orphan", ["orphan"], id="orphan"),
    ],
)
async def test_a_policy_is_kept_as_a_finalizer(room: Room, propagation: str, finalizers: list[str]) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    await room.client.delete(DEPLOYMENT, room.key("web"), options=Options(propagation=propagation))
    going = await room.client.get(DEPLOYMENT, room.key("web"))
    assert going["metadata"]["finalizers"] == finalizers
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    assert going["metadata"]["generation"] == 2


async def test_batch_jobs_leave_their_pods_behind_unless_told_otherwise(room: Room) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    job = {"metadata": {"name": "sum", "namespace": room.namespace}, "spec": {"template": template}}
    await room.client.create(kinds.BATCH_JOB, {"apiVersion": "batch/v1", "kind": "Job", **job})
    await room.client.delete(kinds.BATCH_JOB, room.key("sum"))
    going = await room.client.get(kinds.BATCH_JOB, room.key("sum"))
    assert going["metadata"]["finalizers"] == ["orphan"]


async def test_a_namespace_ends_when_its_finalizer_is_taken_off(room: Room) -> None:
    ending = await room.client.delete(NAMESPACE, Key("", room.namespace))
    assert ending["spec"]["finalizers"] == ["kubernetes"]
    ending["spec"]["finalizers"] = []
    await room.client.update(NAMESPACE, ending, subresource="finalize")
    with pytest.raises(NotFound):
        await room.client.get(NAMESPACE, Key("", room.namespace))


async def test_finalizers_of_a_namespace_change_only_by_finalizing(room: Room) -> None:
    key = Key("", room.namespace)
    patched = await room.client.patch(NAMESPACE, key, {"spec": {"finalizers": ["example.com/mine"]}})
    assert patched["spec"]["finalizers"] == ["kubernetes"]


async def test_a_binding_may_say_which_pod_it_means(room: Room) -> None:
    await room.create(room.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": room.namespace, "uid": "not-this-one"},
        "target": {"kind": "Node", "name": "n1"},
    }
    with pytest.raises(Conflict, match="UID in precondition: not-this-one"):
        await room.client.create(POD, binding, subresource="binding")
    del binding["metadata"]["uid"]  # type: ignore[attr-defined]
    binding["metadata"] |= {"annotations": {"why": "because"}, "labels": {"zone": "a"}}  # type: ignore[operator]
    await room.client.create(POD, binding, subresource="binding")
    pod = await room.client.get(POD, room.key("web"))
    assert pod["metadata"]["annotations"]["why"] == "because"
    assert pod["metadata"]["labels"]["zone"] == "a"


async def test_a_binding_needs_a_target(room: Room) -> None:
    await room.create(room.pod(), POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": room.namespace},
    }
    with pytest.raises(ApiError):
        await room.client.create(POD, {**binding, "target": {"name": ""}}, subresource="binding")
    with pytest.raises(NotFound, match='pods "ghost" not found'):
        await bind(room, "ghost", "n1")


async def test_a_running_pod_gets_a_container_for_debugging(room: Room) -> None:
    await room.create(room.pod(), POD)
    debugger = {"name": "debug", "image": "busybox:1"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeSelector": {"a": "b"}}}
    options = Options(patch_type=PatchType.STRATEGIC)
    patched = await room.client.patch(
        POD, room.key("web"), patch, subresource="ephemeralcontainers", options=options
    )
    assert [container["name"] for container in patched["spec"]["ephemeralContainers"]] == ["debug"]
    assert "nodeSelector" not in patched["spec"]


async def test_a_running_pod_is_resized_and_nothing_else(room: Room) -> None:
    await room.create(room.pod(), POD)
    sized = room.pod("sized")
    sized["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    created = await room.create(sized, POD)
    created["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    created["spec"]["containers"][0]["image"] = "busybox:2"
    created["spec"]["activeDeadlineSeconds"] = 5
    created["metadata"]["annotations"] = {"a": "b"}
    resized = await room.client.update(POD, created, subresource="resize")
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "150m"}
    assert resized["spec"]["containers"][0]["image"] == "busybox:1"
    assert "activeDeadlineSeconds" not in resized["spec"]
    assert "annotations" not in resized["metadata"]
    assert resized["metadata"]["generation"] == 2


async def test_a_stale_scale_conflicts(room: Room) -> None:
    await room.create(room.deployment(), DEPLOYMENT)
    scale = await room.client.get(DEPLOYMENT, room.key("web"), subresource="scale")
    await room.client.patch(DEPLOYMENT, room.key("web"), {"metadata": {"labels": {"a": "b"}}})
    scale["spec"]["replicas"] = 9
    with pytest.raises(Conflict):
        await room.client.update(DEPLOYMENT, scale, subresource="scale")
    del scale["metadata"]["resourceVersion"]
    assert (await room.client.update(DEPLOYMENT, scale, subresource="scale"))["spec"]["replicas"] == 9


async def test_strictness_names_the_field(room: Room) -> None:
    manifest = {**room.config(), "colour": "blue"}
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "colour"'):
        await room.client.create(CONFIG_MAP, manifest, options=Options(field_validation="Strict"))


async def test_a_patch_cannot_rename_an_object(room: Room) -> None:
    await room.create(room.config())
    with pytest.raises(ApiError) as refused:
        await room.client.patch(CONFIG_MAP, room.key("settings"), {"metadata": {"name": "other"}})
    assert refused.value.code in (400, 422)
    assert await room.names() == ["settings"]


async def test_a_token_that_is_none_is_refused(room: Room) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await room.client.list(CONFIG_MAP, room.query(limit=1, continue_token="bm9uc2Vuc2U"))


async def test_every_write_is_seen_by_the_reader_that_comes_after(room: Room) -> None:
    for number in range(10):
        name = f"c{number}"
        await room.create(room.config(name))
        assert name in await room.names()
        await room.client.delete(CONFIG_MAP, room.key(name))
        assert name not in await room.names()


async def test_writers_who_retry_on_conflict_lose_nothing(room: Room) -> None:
    await room.create(room.config(count="0"))

    async def increment() -> None:
        while True:
            present = await room.client.get(CONFIG_MAP, room.key("settings"))
            present["data"]["count"] = str(int(present["data"]["count"]) + 1)
            try:
                await room.client.update(CONFIG_MAP, present)
                return
            except Conflict:
                continue

    await asyncio.gather(*(increment() for _ in range(8)))
    assert (await room.client.get(CONFIG_MAP, room.key("settings")))["data"] == {"count": "8"}

"""Write-back: bindings before status, status merged, transient errors retried, rejections reported."""

import asyncio
from typing import Any, cast

import pytest

from volcano.base.clock import VirtualClock
from volcano.kube.api.errors import ApiError, Conflict, Forbidden, NotFound, Unavailable
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import DEFAULTS, Client, Options
from volcano.model.decisions import Bind, Decision, Evict, RecordEvent, SetPodCondition, SetPodGroup, SetQueue
from volcano.model.job import PodGroup
from volcano.scheduler.writeback.operations import OperationBuilder, binding, pod_group_patch
from volcano.scheduler.writeback.writeback import WriteBack


class Server:
    """Records the writes; fails those it has errors for."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, str]] = []
        self.errors: dict[str, list[ApiError]] = {}

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        return self._take("create", subresource or kind.kind, manifest["metadata"]["name"])

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        return self._take("patch", kind.kind, key.name)

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        return self._take("delete", kind.kind, key.name)

    def _take(self, verb: str, what: str, name: str) -> Manifest:
        waiting = self.errors.get(name)
        if waiting:
            raise waiting.pop(0)
        self.writes.append((verb, what, name))
        return {"metadata": {}}


class Desk:
    """A write-back on a virtual clock."""

    def __init__(self) -> None:
        self.server, self.clock = Server(), VirtualClock()
        self.rejected: list[Decision] = []
        builder = OperationBuilder("volcano")
        client = cast(Client, self.server)  # the three verbs that write-back uses
        self.write_back = WriteBack(client, builder, self.clock, on_rejected=self.rejected.append, workers=1)

    async def write(self, *decisions: Decision) -> list[tuple[str, str, str]]:
        running = asyncio.create_task(self.write_back.run())
        self.write_back.submit(decisions)
        for _ in range(400):
            await asyncio.sleep(0)
            self.clock.advance(0.1)
            if not self.write_back.pending:
                break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return [write for write in self.server.writes if write[1] != "Event"]


def bind(name: str) -> Bind:
    return Bind(f"uid-{name}", "default", name, "default/j", "n1")


def phase(value: str) -> SetPodGroup:
    return SetPodGroup("default/j", "default", "j", phase=value)


async def test_deeds_are_written_before_words_in_the_order_decided() -> None:
    written = await Desk().write(phase("Running"), bind("a"), bind("b"))
    assert written == [("create", "binding", "a"), ("create", "binding", "b"), ("patch", "PodGroup", "j")]


async def test_of_several_words_about_one_thing_the_last_is_written() -> None:
    desk = Desk()
    desk.write_back.submit([phase("Running")])
    assert await desk.write(phase("Completed")) == [("patch", "PodGroup", "j")]


async def test_what_a_controller_waits_for_is_written_before_any_binding() -> None:
    written = await Desk().write(bind("a"), phase("Inqueue"))
    assert written == [("patch", "PodGroup", "j"), ("create", "binding", "a")]


async def test_a_pod_that_is_being_bound_is_no_longer_said_to_wait() -> None:
    desk = Desk()
    desk.write_back.submit([SetPodCondition("uid-a", "default", "a", "Unschedulable", "0/1 nodes")])
    assert await desk.write(bind("a")) == [("create", "binding", "a")]


async def test_nothing_more_is_said_about_a_gang_that_is_gone() -> None:
    desk = Desk()
    desk.write_back.submit(
        [phase("Completed"), RecordEvent("default/j", "default", "j", "Normal", "Scheduled", "ready")]
    )
    desk.write_back.withdraw(PodGroup("default", "j"))
    await desk.write()
    assert desk.server.writes == []


async def test_what_may_pass_is_tried_again() -> None:
    desk = Desk()
    desk.server.errors["a"] = [Unavailable("away"), Unavailable("away")]
    assert await desk.write(bind("a")) == [("create", "binding", "a")]
    assert desk.rejected == []


@pytest.mark.parametrize("errors", [[Conflict("taken")], [NotFound("gone"), NotFound("gone")]])
async def test_what_is_refused_is_told_back(errors: list[ApiError]) -> None:
    desk = Desk()
    desk.server.errors["a"] = errors
    assert await desk.write(bind("a"), bind("b")) == [("create", "binding", "b")]
    assert desk.rejected == [bind("a")]


async def test_an_eviction_says_why_and_deletes() -> None:
    written = await Desk().write(Evict("uid-a", "default", "a", "default/j", "n1", "preempt", "default/k"))
    assert written == [("patch", "Pod", "a"), ("delete", "Pod", "a")]


async def test_one_event_for_one_text() -> None:
    desk = Desk()
    said = SetPodCondition("uid-a", "default", "a", "Unschedulable", "0/1 nodes are available")
    await desk.write(said)
    await desk.write(said)
    events = [write for write in desk.server.writes if write[1] == "Event"]
    assert [verb for verb, *_ in events] == ["create", "patch"]


def test_a_binding_names_the_pod_it_means() -> None:
    manifest = binding(Bind("u1", "ns", "p", "ns/j", "n1", {"gpu": "0"})).manifest
    assert manifest["metadata"] == {"name": "p", "namespace": "ns", "uid": "u1", "annotations": {"gpu": "0"}}
    assert manifest["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_patch_holds_only_what_changes() -> None:
    assert pod_group_patch(phase("Running")) == {"status": {"phase": "Running"}}
    counted = SetPodGroup("default/j", "default", "j", counts=(1, 2, 3))
    assert pod_group_patch(counted) == {"status": {"running": 1, "succeeded": 2, "failed": 3}}


async def test_a_queues_names_that_are_no_longer_used_are_removed() -> None:
    desk = Desk()
    assert await desk.write(SetQueue("q", {"cpu": "1"}, ("memory",))) == [("patch", "Queue", "q")]


class Bodies(Server):
    """Also keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.patches: list[Any] = []
        self.created: list[Manifest] = []

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        answer = await super().create(kind, manifest, subresource=subresource, options=options)
        self.created.append(manifest)
        return answer

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        answer = await super().patch(kind, key, patch, subresource=subresource, options=options)
        self.patches.append(patch)
        return answer

    def events(self) -> list[Manifest]:
        return [manifest for manifest in self.created if "involvedObject" in manifest]


def failing(*errors: ApiError, **options: Any) -> Desk:
    """A write-back whose server has these errors for pod a."""
    desk = Desk()
    desk.server = server = Bodies()
    server.errors["a"] = list(errors)
    desk.write_back = WriteBack(
        cast(Client, server),
        OperationBuilder("volcano"),
        desk.clock,
        on_rejected=desk.rejected.append,
        workers=1,
        **options,
    )
    return desk


async def test_a_pod_that_cannot_be_bound_has_a_condition_and_an_event() -> None:
    desk = failing(Forbidden("node n1 is closed"))
    await desk.write(bind("a"))
    server = cast(Bodies, desk.server)
    (patch,) = server.patches
    (condition,) = patch["status"]["conditions"]
    text = "failed to bind to node n1: node n1 is closed"
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (condition["reason"], condition["message"]) == ("SchedulerError", text)
    (event,) = server.events()
    assert (event["reason"], event["message"], event["involvedObject"]["uid"]) == (
        "FailedScheduling",
        text,
        "uid-a",
    )
    assert desk.rejected == [bind("a")]


async def test_the_same_failure_is_reported_once() -> None:
    desk = failing(Forbidden("closed"))
    await desk.write(bind("a"))
    desk.server.errors["a"] = [Forbidden("closed")]
    await desk.write(bind("a"))
    server = cast(Bodies, desk.server)
    assert (len(server.patches), len(server.events()), len(desk.rejected)) == (1, 1, 2)


@pytest.mark.parametrize(("bound", "conditions"), [(True, 0), (False, 1)])
async def test_a_binding_without_a_definite_answer_is_read_back_before_it_is_reported(
    bound: bool, conditions: int
) -> None:
    async def read_back(decision: Bind | Evict) -> bool:
        return bound

    desk = failing(Conflict("taken"), read_back=read_back)
    await desk.write(bind("a"))
    assert len(cast(Bodies, desk.server).patches) == conditions


async def test_bound_pods_get_a_scheduled_event_if_configured() -> None:
    desk = failing(scheduled_events=True)
    await desk.write(bind("a"), bind("b"))
    events = {event["involvedObject"]["name"]: event for event in cast(Bodies, desk.server).events()}
    assert events["a"]["message"] == "Successfully assigned default/a to n1"
    assert (events["b"]["reason"], events["b"]["type"]) == ("Scheduled", "Normal")
    assert events["b"]["involvedObject"]["uid"] == "uid-b"
    silent = failing()
    await silent.write(bind("a"))
    assert cast(Bodies, silent.server).events() == []


async def test_events_about_podgroups_have_its_uid_and_evictions_name_the_beneficiary() -> None:
    desk = failing()
    eviction = Evict("uid-a", "default", "a", "default/j", "n1", "reclaim", "team/train", "uid-j")
    warning = RecordEvent("default/k", "default", "k", "Warning", "Unschedulable", "m", "uid-k")
    await desk.write(eviction, warning)
    pod, group, other = cast(Bodies, desk.server).events()
    assert pod["message"] == "Pod is evicted, because of reclaim for team/train"
    assert (group["involvedObject"]["kind"], group["involvedObject"]["uid"]) == ("PodGroup", "uid-j")
    assert group["message"] == "reclaim: pod a is evicted for team/train"
    assert other["involvedObject"]["uid"] == "uid-k"

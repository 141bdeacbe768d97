"""Write-back: bindings before status, status merged, transient errors retried, rejections reported."""

import asyncio
from typing import Any, cast

import pytest

from volcano.clock import VirtualClock
from volcano.kube.client import DEFAULTS, Client, Options
from volcano.kube.errors import ApiError, Conflict, NotFound, Unavailable
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Key, Manifest
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


@pytest.mark.parametrize("error", [Conflict("taken"), NotFound("gone")])
async def test_what_is_refused_is_told_back(error: ApiError) -> None:
    desk = Desk()
    desk.server.errors["a"] = [error]
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

"""`vcctl explain` beyond its screens: rights, configuration, the past, and wrong use."""

import asyncio
import json
import shlex
from typing import Any, ClassVar

import pytest

from tests.builders import job, node, pod, queue, resources
from tests.cli.explain.test_explain_screens import ClientWithHistory, fill, history
from tests.cli.test_screens import FixedSession
from tests.cluster import SmallCluster
from tests.scenario import schedule
from volcano.base.http.client_connection import Reply
from volcano.base.http.messages import Request
from volcano.cli.errors import UsageError
from volcano.cli.program import parser_of
from volcano.kube.api.errors import Forbidden, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, JOB, POD, POD_GROUP, QUEUE, SERVICE, Kind
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EVERYTHING, Query
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.endpoint import PATH, respond
from volcano.services.errors import InvalidInput, NotFoundError, ServiceError, Unreachable


async def run(command: str, cluster: SmallCluster, client: Any) -> str:
    session = FixedSession(client, cluster.clock, 200)
    arguments = parser_of("vcctl").parse_args(shlex.split(command))
    assert await arguments.run(arguments, session) == 0
    return session.output.getvalue()


async def explained(command: str, client_of: Any = ClientWithHistory) -> str:
    async with SmallCluster() as cluster:
        await fill(cluster)
        return await run(command, cluster, client_of(cluster.client, history()))


class NamespaceOnly(ClientWithHistory):
    """The client of a user who may read one namespace."""

    async def list(self, kind: Kind, query: Query = EVERYTHING, **options: Any) -> Any:
        if not query.namespace:
            raise Forbidden(f"{kind.plural} is forbidden")
        return await self._client.list(kind, query, **options)

    async def raw(self, method: str, target: str) -> Reply:
        raise Forbidden("forbidden")


class BehindService(ClientWithHistory):
    """A cluster whose scheduler is reached through its Service; the first replica that answers does not lead."""

    targets: ClassVar[list[str]] = []

    async def list(self, kind: Kind, query: Query = EVERYTHING, **options: Any) -> Any:
        if kind == SERVICE and query.labels:
            service = {"metadata": {"name": "volcano-scheduler-service", "namespace": "volcano-system"}}
            return type("Listing", (), {"items": [service]})
        return await self._client.list(kind, query, **options)

    async def raw(self, method: str, target: str) -> Reply:
        path, _, _ = target.partition("?")
        if not path.startswith("/api/v1/"):
            raise NotFound("no such path")
        self.targets.append(path)
        kept = CycleHistory() if len(self.targets) == 1 else self._kept
        return Reply(200, {}, respond(kept, Request("GET", PATH, {})).body)


async def test_with_rights_in_a_namespace_the_condition_is_shown_and_what_is_missing_is_said() -> None:
    text = await explained("explain job large", NamespaceOnly)
    assert (
        "large waits for capacity: the nodes that could be used do not have enough free resources now."
        in text
    )
    assert "InsufficientResources (CAPACITY)" in text
    assert "you may not list pods, nodes, podgroups, queues, priorityclasses in the whole cluster" in text
    assert "steps, position, changes and the nodes by reason are missing" in " ".join(text.split())


async def test_with_rights_in_a_namespace_a_pod_is_shown_with_its_own_condition() -> None:
    text = await explained("explain pod train-worker-0", NamespaceOnly)
    assert "train-worker-0 runs on gpu-0." in text


@pytest.mark.parametrize("subject", ["queue research", "node gpu-0", "cluster"])
async def test_what_needs_the_whole_cluster_is_refused_without_its_rights(subject: str) -> None:
    with pytest.raises(Unreachable, match="ask an administrator for a ClusterRole"):
        await explained(f"explain {subject}", NamespaceOnly)


async def test_without_the_scheduler_s_configuration_the_default_is_used_and_said() -> None:
    async with SmallCluster() as cluster:
        await fill(cluster)
        key = Key("volcano-system", "volcano-scheduler-configmap")
        await cluster.client.delete(CONFIG_MAP, key)
        text = await run("explain job large", cluster, ClientWithHistory(cluster.client, history()))
    assert (
        "there is no ConfigMap volcano-system/volcano-scheduler-configmap; the default configuration is used"
        in text
    )
    assert "the configuration has neither preempt nor reclaim" in text


async def test_the_record_of_cycles_is_reached_through_the_service_until_a_leader_answers() -> None:
    BehindService.targets.clear()
    text = await explained("explain cycle", BehindService)
    assert "The record has the cycles 1 to 2" in text
    service = (
        "/api/v1/namespaces/volcano-system/services/volcano-scheduler-service:metrics/proxy/debug/cycles"
    )
    assert BehindService.targets == [service, service]


async def test_without_a_record_of_cycles_the_rest_is_shown_and_the_reason_is_said() -> None:
    class NoRecord(ClientWithHistory):
        async def raw(self, method: str, target: str) -> Reply:
            raise NotFound("no such path")

    text = await explained("explain job large", NoRecord)
    assert "Steps" in text
    assert "no history of cycles: no Service has the labels app=volcano-scheduler" in text
    with pytest.raises(ServiceError, match="no Service has the labels"):
        await explained("explain cycle", NoRecord)


async def test_the_data_has_what_the_screen_has() -> None:
    found = json.loads(await explained("explain job large -v nodes -o json"))
    assert found["diagnosis"]["code"] == "InsufficientResources"
    assert found["diagnosis"]["class"] == "CAPACITY"
    assert found["diagnosis"]["nodes"]["causes"]
    assert [step["step"] for step in found["steps"]] == [
        "admission", "gang", "queue", "priority", "nodes", "topology", "devices", "preempt/reclaim",
    ]  # fmt: skip
    assert found["position"] == {"place": 1, "of": 3, "ahead": [], "more": 0, "podsAhead": 0}
    assert {"reduce the replicas from 4 to 1", "job default/train finishes"} <= {
        each["change"] for each in found["changes"]
    }
    assert len(found["details"]["nodes"]) == 4


async def test_devices_that_are_free_are_not_what_a_job_behind_a_limit_waits_for() -> None:
    capped = job("capped", 1, queue="capped", gpu=2)
    capped.group["metadata"] = {"name": "capped", "namespace": "default"}
    (waiting,) = capped.pods
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        waiting["metadata"].pop(name, None)
    limits = waiting["spec"]["containers"][0]["resources"]
    limits["limits"] = dict(limits["requests"])
    async with SmallCluster() as cluster:
        await fill(cluster)
        limited = queue("capped", capability=resources(gpu=1))
        limited["metadata"] = {"name": "capped"}
        for kind, manifest in ((QUEUE, limited), (POD_GROUP, capped.group), (POD, waiting)):
            await cluster.client.create(kind, manifest)
        text = await run("explain job capped -o json", cluster, ClientWithHistory(cluster.client, history()))
    found = json.loads(text)
    devices = next(step for step in found["steps"] if step["step"] == "devices")
    assert found["diagnosis"]["class"] == "POLICY"
    assert devices["ok"] is True
    assert devices["text"] == "nvidia.com/gpu: 2 asked for, 2 of 8 free in the cluster"


async def test_jobs_of_another_scheduler_are_not_explained_as_ours() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "foreign", "namespace": "default"},
        "spec": {"schedulerName": "other", "tasks": [{"name": "t", "replicas": 1, "template": template}]},
    }
    async with SmallCluster() as cluster:
        await fill(cluster)
        await cluster.client.create(JOB, manifest)
        text = await run("explain job foreign", cluster, ClientWithHistory(cluster.client, history()))
    assert "its pods name the scheduler 'other', which decides about them" in text
    assert "OtherScheduler (CONFIG)" in text


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("explain job larg", NotFoundError, "did you mean 'large'?"),
        ("explain pod nothing", NotFoundError, "nothing is recorded about it"),
        ("explain queue researc", NotFoundError, "did you mean 'research'?"),
        ("explain node gpu-7", NotFoundError, "node 'gpu-7' not found"),
        ("explain job", UsageError, "job name is mandatory"),
        ("explain job large -o xml", UsageError, "none of json, yaml"),
        ("explain job large --cycle 1 --at 2027-01-15T08:00:00Z", UsageError, "choose one"),
        ("explain job large --cycle one", UsageError, "is not the number of a cycle"),
        ("explain job large --cycle 1 --watch", UsageError, "--watch shows the present"),
        ("explain job large --cycle 1 -v nodes", InvalidInput, "-v nodes shows the present"),
        ("explain cycle one", UsageError, "is not the number of a cycle"),
    ],
)
async def test_wrong_use_says_what_would_be_right(command: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        await explained(command)


@pytest.mark.parametrize("words", ["explain job x -v everything", "explain job x --reruns 0"])
def test_flags_with_wrong_values_are_refused(words: str) -> None:
    with pytest.raises(UsageError):
        parser_of("vcctl").parse_args(shlex.split(words))


async def test_watching_prints_again_when_something_changes() -> None:
    async with SmallCluster() as cluster:
        await fill(cluster)
        session = FixedSession(ClientWithHistory(cluster.client, history()), cluster.clock, 200)
        arguments = parser_of("vcctl").parse_args(shlex.split("explain cluster --watch"))
        task = asyncio.create_task(arguments.run(arguments, session))
        for _ in range(200):
            await asyncio.sleep(0.01)
            if session.output.getvalue():
                break
        first = session.output.getvalue()
        new = job("new", 1, queue="research")
        group = {**new.group, "metadata": {"name": "new", "namespace": "default"}}
        await cluster.client.create(POD_GROUP, group)
        member = pod("new-0", 99, group="new")
        member["metadata"] = {
            k: v for k, v in member["metadata"].items() if k in ("name", "namespace", "annotations")
        }
        await cluster.client.create(POD, member)
        for _ in range(200):
            cluster.clock.advance(2.0)
            await asyncio.sleep(0.01)
            if len(session.output.getvalue()) > len(first):
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "4 jobs wait" in first
    assert "5 jobs wait" in session.output.getvalue()


def scored() -> CycleHistory:
    """A cycle that placed a gang, with scores."""
    kept = CycleHistory()
    result = schedule(
        nodes=[node(f"s{i}", 4 + i) for i in range(6)], jobs=[job("gang", 3, cpu=3)], record_scores=True
    )
    kept.record(result.outcome, result.snapshot, result.decisions, 0.01)
    return kept


async def test_a_pod_of_a_past_cycle_has_the_scores_of_its_node_and_of_the_runners_up() -> None:
    kept = scored()
    async with SmallCluster() as cluster:
        client = ClientWithHistory(cluster.client, kept)
        text = await run("explain pod gang-worker-0 --cycle 1 -v scores", cluster, client)
        found = json.loads(await run("explain pod gang-worker-0 --cycle 1 -o json", cluster, client))
        other = json.loads(
            await run("explain pod gang-worker-2 --cycle 1 -v scores -o json", cluster, client)
        )
    assert "Scores (nodes that could take it: 6; recorded in cycle 1)" in text
    assert "binpack" in text
    assert len(found["ranking"]) == 4
    best, *others = found["ranking"]
    assert best["node"] == found["node"]
    assert all(each["score"] <= best["score"] for each in others)
    assert sum(best["plugins"].values()) == pytest.approx(best["score"], abs=0.01)
    assert "recorded in cycle 1 for default/gang-worker-0, the first pod like it" in other["basis"]


async def test_a_pod_of_a_cycle_without_scores_says_so() -> None:
    kept = CycleHistory()
    result = schedule(nodes=[node("n1")], jobs=[job("gang", 3, cpu=1)])
    kept.record(result.outcome, result.snapshot, result.decisions, 0.01)
    async with SmallCluster() as cluster:
        client = ClientWithHistory(cluster.client, kept)
        text = await run("explain pod gang-worker-0 --cycle 1 -v scores", cluster, client)
    assert "the record of cycles has no scores for this pod" in text


async def test_a_queue_with_child_queues_speaks_of_its_own_jobs_only() -> None:
    async with SmallCluster() as cluster:
        await fill(cluster)
        for name, parent in (("department", "root"), ("team", "department")):
            await cluster.client.create(QUEUE, {**queue(name, parent=parent), "metadata": {"name": name}})
        client = ClientWithHistory(cluster.client, history())
        parent_text = await run("explain queue department", cluster, client)
        child_text = await run("explain queue team", cluster, client)
    assert "no job waits in the queue itself." in parent_text
    assert "no job waits." in child_text

"""Scenarios H and I of the acceptance list: queues, PodGroups, flows, schedules and HyperNodes."""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from tests.cluster import SmallCluster
from tests.controllers.test_cronjob import finish, spec
from tests.controllers.test_jobflow import SPEC, phase, set_phase, templates
from tests.controllers.test_podgroup import GROUP, pod
from tests.controllers.test_queue import command, group, state
from volcano.base.clock import Instant, parse_timestamp
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.controllers.jobflow import JobFlowController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.controllers.kubernetes.statefulset import StatefulSetController
from volcano.controllers.podgroup import PodGroupController
from volcano.controllers.queue import QueueController
from volcano.controllers.schedule import find_due
from volcano.kube.api import cron
from volcano.kube.api.kinds import (
    CRON_JOB,
    EVENT,
    HYPER_NODE,
    JOB,
    JOB_FLOW,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from volcano.kube.api.manifest import Manifest, annotations_of, controller_of, uid_of


async def test_an_empty_queue_closes_and_opens_by_command() -> None:
    async with SmallCluster(QueueController()) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        await command(cluster, "q", "CloseQueue")
        assert await state(cluster, "q") == "Closed"
        await command(cluster, "q", "OpenQueue")
        assert await state(cluster, "q") == "Open"


async def test_a_child_closes_with_its_parent_and_cannot_open_alone() -> None:
    async with SmallCluster(QueueController()) as cluster:
        await cluster.create(QUEUE, "queue1", spec={"parent": "root"})
        await cluster.create(QUEUE, "queue11", spec={"parent": "queue1"})
        await command(cluster, "queue1", "CloseQueue")
        assert await state(cluster, "queue11") == "Closed"
        await command(cluster, "queue11", "OpenQueue")
        assert await state(cluster, "queue11") == "Closed"
        await command(cluster, "queue1", "OpenQueue")
        assert await state(cluster, "queue1") == "Open"


async def test_a_new_queue_opens() -> None:
    async with SmallCluster(QueueController()) as cluster:
        await cluster.create(QUEUE, "q", spec={})
        assert await state(cluster, "q") == "Open"


async def test_a_pod_group_gone_unknown_is_counted_in_status_and_metric() -> None:
    registry = CollectorRegistry()
    async with SmallCluster(QueueController(registry, calm=0)) as cluster:
        await group(cluster, "g", "default", "Running")
        await cluster.patch(POD_GROUP, "g", {"status": {"phase": "Unknown"}})
        assert (await cluster.get(QUEUE, "default"))["status"]["unknown"] == 1
        labels = {"queue_name": "default"}
        assert registry.get_sample_value("volcano_queue_pod_group_unknown_count", labels) == 1
        assert registry.get_sample_value("volcano_queue_pod_group_running_count", labels) == 0


UNKNOWN_OPERATOR = Kind("operators.example.com", "v1", "TrainingRun", "trainingruns")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(REPLICATION_CONTROLLER, id="h6 a ReplicationController's pods"),
        pytest.param(REPLICA_SET, id="h7 a ReplicaSet's pods"),
        pytest.param(UNKNOWN_OPERATOR, id="an operator's pods"),
    ],
)
async def test_pods_share_the_group_of_their_owner(kind: Kind) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    async with SmallCluster(PodGroupController()) as cluster:
        if kind != UNKNOWN_OPERATOR:
            wanted = workload()
            del wanted["serviceName"]
            if kind == REPLICATION_CONTROLLER:
                wanted["selector"] = {"app": "w"}
            uid = uid_of(await cluster.create(kind, "o", spec=wanted))
        reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "o", "uid": uid}
        owners = {"ownerReferences": [{**reference, "controller": True}]}
        for name, scheduler in (("p1", "volcano"), ("p2", "volcano"), ("other", "default-scheduler")):
            await cluster.create(
                POD, name, metadata=owners, spec=pod(schedulerName=scheduler, priorityClassName="urgent")
            )
        (made,) = await cluster.all(POD_GROUP)
        owner = controller_of(made)
        assert owner is not None
        assert made["metadata"]["name"] == f"podgroup-{uid}"
        assert (owner["kind"], owner["uid"], made["spec"]["minMember"]) == (kind.kind, uid, 1)
        assert made["spec"]["priorityClassName"] == "urgent"
        assert GROUP not in annotations_of(await cluster.get(POD, "other"))


async def test_a_bare_pod_controls_its_own_group() -> None:
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", spec=pod())
        owner = controller_of(await cluster.get(POD_GROUP, f"podgroup-{uid_of(made)}"))
        assert owner is not None
        assert (owner["kind"], owner["uid"]) == ("Pod", uid_of(made))


def workload(**fields: Any) -> Manifest:
    labels = {"app": "w"}
    template = {"metadata": {"labels": labels}, "spec": pod(**fields)}
    return {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, "serviceName": "w"}


async def test_a_replica_sets_annotation_sizes_the_group() -> None:
    gpu = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    notes = {"scheduling.volcano.sh/group-min-member": "2"}
    async with SmallCluster(PodGroupController(), ReplicaSetController()) as cluster:
        containers = [{"name": "c", "image": "i", "resources": gpu}]
        replicas = workload(containers=containers)
        del replicas["serviceName"]
        made = await cluster.create(REPLICA_SET, "w", metadata={"annotations": notes}, spec=replicas)
        group = await cluster.get(POD_GROUP, f"podgroup-{uid_of(made)}")
        assert group["spec"]["minMember"] == 2
        assert group["spec"]["minResources"]["nvidia.com/gpu"] == "2"
        assert group["spec"]["minResources"]["pods"] == "2"


@pytest.mark.parametrize("kind", [REPLICA_SET, STATEFUL_SET], ids=["h10 ReplicaSet", "h10 StatefulSet"])
async def test_pods_with_a_group_of_their_own_get_none(kind: Any) -> None:
    async with SmallCluster(PodGroupController(), ReplicaSetController(), StatefulSetController()) as cluster:
        wanted = workload()
        wanted["template"]["metadata"]["annotations"] = {GROUP: "mine"}
        if kind == REPLICA_SET:
            del wanted["serviceName"]
        await cluster.create(kind, "w", spec=wanted)
        assert {annotations_of(p)[GROUP] for p in await cluster.all(POD)} == {"mine"}
        assert await cluster.names(POD_GROUP) == []


@pytest.mark.parametrize(
    ("notes", "topology"),
    [
        pytest.param({"mode": "soft"}, {"mode": "soft"}, id="h11 mode alone"),
        pytest.param(
            {"highest-tier": "1"}, {"mode": "hard", "highestTierAllowed": 1}, id="h11 tier alone is hard"
        ),
        pytest.param({"mode": "firm", "highest-tier": "x"}, {"mode": "hard"}, id="neither can be read"),
        pytest.param({"mode": "soft", "highest-tier": "²"}, {"mode": "soft"}, id="no number"),
    ],
)
async def test_topology_comes_from_a_pods_annotations(notes: dict[str, str], topology: Manifest) -> None:
    annotations = {f"volcano.sh/network-topology-{name}": value for name, value in notes.items()}
    async with SmallCluster(PodGroupController()) as cluster:
        made = await cluster.create(POD, "p", metadata={"annotations": annotations}, spec=pod())
        group = await cluster.get(POD_GROUP, f"podgroup-{uid_of(made)}")
        assert group["spec"]["networkTopology"] == topology


async def test_a_flow_without_dependencies_makes_its_job_at_once() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        await cluster.create(JOB_FLOW, "f", spec={"flows": [{"name": "a"}]})
        metadata = (await cluster.get(JOB, "f-a"))["metadata"]
        marks = {
            "volcano.sh/createdByJobTemplate": "default.a",
            "volcano.sh/createdByJobFlow": "default.f",
        }
        assert metadata["labels"] == metadata["annotations"] == marks


@pytest.mark.parametrize(
    ("flows", "ends", "reached"),
    [
        pytest.param(1, ["Completed"], "Succeed", id="i2 one of one completed"),
        pytest.param(2, ["Completed"], "Running", id="i2 one of two completed"),
        pytest.param(2, ["Completed", "Failed"], "Failed", id="i2 one failed"),
        pytest.param(2, ["Running", "Terminated"], "Failed", id="i2 one terminated"),
    ],
)
async def test_a_flow_sums_up_its_jobs(flows: int, ends: list[str], reached: str) -> None:
    registry = CollectorRegistry()
    async with SmallCluster(JobFlowController(registry)) as cluster:
        names = ["a", "b"][:flows]
        await templates(cluster, *names)
        await cluster.create(JOB_FLOW, "f", spec={"flows": [{"name": name} for name in names]})
        for name in names:
            await set_phase(cluster, f"f-{name}", "Running")
        assert await phase(cluster) == "Running"
        for name, end in zip(names, ends, strict=False):
            await set_phase(cluster, f"f-{name}", end)
        assert await phase(cluster) == reached
        for ended in ("succeed", "failed"):
            counted = registry.get_sample_value(
                f"volcano_jobflow_{ended}_phase_count", {"jobflow_namespace": "default"}
            )
            assert counted == (1 if reached.lower() == ended else None)


async def test_a_flow_that_names_a_template_twice_succeeds_with_its_one_job() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        await cluster.create(JOB_FLOW, "f", spec={"flows": [{"name": "a"}, {"name": "a"}]})
        await set_phase(cluster, "f-a", "Completed")
        assert await phase(cluster) == "Succeed"


async def test_a_flow_waits_for_a_name_that_another_owner_has() -> None:
    async with SmallCluster(JobFlowController()) as cluster:
        await templates(cluster, "a")
        await cluster.create(JOB, "f-a", spec=SPEC)
        await cluster.create(JOB_FLOW, "f", spec={"flows": [{"name": "a"}]})
        assert [event["reason"] for event in await cluster.all(EVENT)] == ["ForeignJob"]
        await cluster.delete(JOB, "f-a")
        owner = controller_of(await cluster.get(JOB, "f-a"))
        assert owner is not None
        assert owner["name"] == "f"


async def test_a_job_appears_each_minute_with_the_time_it_was_meant_for() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(timeZone="Europe/Berlin"))
        await cluster.pass_time(125, step=5)
        jobs = await cluster.all(JOB)
        assert len(jobs) == 2
        times = [annotations_of(j)["volcano.sh/cronjob-scheduled-timestamp"] for j in jobs]
        assert [datetime.fromisoformat(text).second for text in times] == [0, 0]
        assert all(text.endswith("+01:00") for text in times)
        last = (await cluster.get(CRON_JOB, "tick"))["status"]["lastScheduleTime"]
        assert parse_timestamp(last) == datetime.fromisoformat(times[-1]).timestamp()


async def test_nothing_runs_while_suspended() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(suspend=True))
        await cluster.pass_time(180, step=20)
        assert await cluster.names(JOB) == []


async def test_forbid_never_has_two_at_work() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(concurrencyPolicy="Forbid"))
        most = 0
        for _ in range(4):
            await cluster.pass_time(60, step=20)
            at_work = [j for j in await cluster.all(JOB) if not (j.get("status") or {}).get("state")]
            most = max(most, len(at_work))
        assert most == 1
        assert "ForbidConcurrent" in {event["reason"] for event in await cluster.all(EVENT)}


async def test_a_finished_job_leaves_the_active_list_and_only_the_newest_stays() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(successfulJobsHistoryLimit=1))
        await cluster.pass_time(1)
        made = []
        for _ in range(3):
            await cluster.pass_time(60, step=20)
            (active,) = (await cluster.get(CRON_JOB, "tick"))["status"]["active"]
            made.append(active["name"])
            await finish(cluster, active["name"])
            assert not (await cluster.get(CRON_JOB, "tick"))["status"].get("active")
        assert await cluster.names(JOB) == [made[-1]]
        assert {e["reason"] for e in await cluster.all(EVENT)} >= {
            "SawCompletedJob",
            "SuccessfulDelete",
            "SuccessfulCreate",
        }


def moment(text: str) -> Instant:
    return Instant(parse_timestamp(text), 0.0)


@pytest.mark.parametrize(
    ("created", "now", "due", "few"),
    [
        pytest.param("10:00:10", "15:01:00", "15:00:00", True, id="i8 five hours late"),
        pytest.param("10:00:00", "10:00:30", "", True, id="i8 nothing due yet"),
        pytest.param("10:00:10", "11:00:00", "11:00:00", True, id="on the dot"),
    ],
)
def test_the_latest_missed_run_is_due(created: str, now: str, due: str, few: bool) -> None:
    manifest = {
        "metadata": {"creationTimestamp": f"2025-03-11T{created}Z"},
        "spec": {"schedule": "0 * * * *"},
    }
    found = find_due(manifest, cron.parse("0 * * * *"), UTC, moment(f"2025-03-11T{now}Z"))
    assert (found.at.strftime("%H:%M:%S") if found.at else "") == due
    assert (found.missed <= 100) is few


async def test_a_schedule_that_is_never_due_is_said_and_runs_nothing() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "never", spec=spec("59 23 31 2 *"))
        await cluster.pass_time(120, step=60)
        assert await cluster.names(JOB) == []
        assert [e["reason"] for e in await cluster.all(EVENT)] == ["InvalidSchedule"]


async def test_node_count_is_the_size_of_the_union() -> None:
    numbers = count()
    members: list[Manifest] = [
        {"type": "Node", "selector": {"exactMatch": {"name": "master"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"zone": "east"}}}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "node[1-3]"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {}}}},
    ]
    async with SmallCluster(HyperNodeController(lambda: f"{next(numbers):05d}")) as cluster:
        for name, zone in (("master", "west"), ("node1", "east"), ("node2", "west"), ("edge", "east")):
            await cluster.create(NODE, name, metadata={"labels": {"zone": zone}}, spec={})
        await cluster.create(HYPER_NODE, "h", spec={"tier": 1, "members": members})
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 4
        await cluster.delete(NODE, "edge")
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 3
        await cluster.create(NODE, "edge", metadata={"labels": {"zone": "east"}}, spec={})
        assert (await cluster.get(HYPER_NODE, "h"))["status"]["nodeCount"] == 4

"""What a job's pods and PodGroup look like."""

from typing import Any

import pytest

from tests.controllers.job.world import command, job, policy, running, submit, task, world
from volcano.controllers.job.min_resources import min_resources
from volcano.controllers.job.podgroup import make_group, pending_condition
from volcano.controllers.job.pods import pod_maker
from volcano.controllers.job.spec import parse_job
from volcano.controllers.job.status import Status
from volcano.kube.api.kinds import JOB, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key, Manifest, annotations_of, labels_of, owner_reference
from volcano.kube.resources.pod_requests import usage


def make_pod(
    manifest: Manifest, index: int = 0, *, name: str = "main", status: Status | None = None
) -> Manifest:
    manifest = {**manifest, "metadata": {"namespace": "ns", "uid": "u", **manifest["metadata"]}}
    parsed = parse_job(manifest, scheduler_name="volcano")
    found = parsed.task(name)
    assert found is not None
    return pod_maker(parsed, found, status or Status(), ())(index)


def make_pod_group(manifest: Manifest) -> Manifest:
    manifest = {**manifest, "metadata": {"namespace": "ns", "uid": "u", **manifest["metadata"]}}
    parsed = parse_job(manifest, scheduler_name="volcano")
    return make_group(parsed, Status(), min_resources(parsed, {}))


def test_a_pod_is_named_after_job_task_and_index() -> None:
    assert make_pod(job(tasks=[task("t", 3)]), 2, name="t")["metadata"]["name"] == "j-t-2"


def test_a_pod_carries_what_the_scheduler_and_users_look_for() -> None:
    annotations = {"volcano.sh/preemptable": "true", "volcano.sh/jdb-min-available": "1", "other": "x"}
    metadata = {"labels": {"volcano.sh/preemptable": "true", "mine": "y"}, "annotations": annotations}
    template = {"metadata": {"name": "ignored", "labels": {"app": "a"}, "annotations": {"note": "n"}}}
    tasks = [{**task(topologyPolicy="restricted"), "template": {**task()["template"], **template}}]
    pod = make_pod(job(tasks=tasks, metadata=metadata, queue="q"), 1, status=Status(version=2, retries=1))
    assert labels_of(pod) == {
        "app": "a",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-spec": "main",
        "volcano.sh/task-index": "1",
        "volcano.sh/preemptable": "true",
    }
    assert annotations_of(pod) == {
        "note": "n",
        "scheduling.k8s.io/group-name": "j-u",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/job-version": "2",
        "volcano.sh/numa-topology-policy": "restricted",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "main",
        "volcano.sh/template-uid": "j-main",
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-min-available": "1",
    }
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "Job",
        "u",
        True,
        True,
    )


def test_the_templates_scheduler_and_priority_go_before_the_jobs() -> None:
    plain = make_pod(job(schedulerName="s", priorityClassName="p"))["spec"]
    assert (plain["schedulerName"], plain["priorityClassName"]) == ("s", "p")
    own = task(spec={"schedulerName": "mine", "priorityClassName": "high"})
    spec = make_pod(job(tasks=[own], schedulerName="s", priorityClassName="p"))["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("mine", "high")


def test_a_claim_is_one_volume_and_a_mount_in_every_main_container() -> None:
    containers = [{"name": "a"}, {"name": "b"}]
    tasks = [task(spec={"containers": containers, "initContainers": [{"name": "i"}]})]
    spec = make_pod(job(tasks=tasks, volumes=[{"mountPath": "/data", "volumeClaimName": "c"}]))["spec"]
    (volume,) = spec["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "c"}
    assert volume["name"].startswith("j-")
    for container in spec["containers"]:
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/data"}]
    assert "volumeMounts" not in spec["initContainers"][0]


def test_a_claim_named_twice_is_added_once() -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/b", "volumeClaimName": "c"}]
    spec = make_pod(job(volumes=volumes))["spec"]
    assert len(spec["volumes"]) == 1
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == ["/a"]


@pytest.mark.parametrize(
    ("size", "index", "partition"),
    [(2, 0, "0"), (2, 1, "0"), (2, 2, "1"), (5, 10, "2"), (0, 7, "0"), (None, 3, None)],
)
def test_a_pod_knows_its_partition(size: int | None, index: int, partition: str | None) -> None:
    fields: Any = {} if size is None else {"partitionPolicy": {"totalPartitions": 3, "partitionSize": size}}
    pod = make_pod(job(tasks=[task(replicas=15, **fields)]), index)
    assert labels_of(pod).get("volcano.sh/partition-id") == partition


def test_a_queue_with_more_clusters_forwards_its_jobs() -> None:
    cluster = world()
    cluster.put(QUEUE, {"metadata": {"name": "far"}, "spec": {"extendClusters": [{"name": "c2"}]}})
    submit(cluster, job(queue="far"))
    cluster.settle()
    assert annotations_of(cluster.job("j"))["volcano.sh/job-forwarding"] == "true"
    for pod in cluster.pods():
        assert labels_of(pod)["volcano.sh/job-forwarding"] == "true"
        assert annotations_of(pod)["volcano.sh/job-forwarding"] == "true"


def test_the_least_resources_are_counted_as_a_quota_counts_them() -> None:
    amounts = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    tasks = [task(name, 1, spec={"containers": [container]}) for name in ("a", "b")]
    assert min_resources(parse_job(job(tasks=tasks), scheduler_name="volcano"), {}) == {
        "count/pods": "2",
        "pods": "2",
        "cpu": "2",
        "requests.cpu": "2",
        "limits.cpu": "2",
        "memory": "2000Mi",
        "requests.memory": "2000Mi",
        "limits.memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
    }


@pytest.mark.parametrize(
    ("minima", "minimum", "priorities", "cpu", "pods"),
    [
        pytest.param((1, 1), 2, {}, "150m", "2", id="one of each"),
        pytest.param((1, 1), 3, {}, "200m", "3", id="equal priorities"),
        pytest.param((1, 1), 3, {"m": 10}, "200m", "3", id="masters first"),
        pytest.param((1, 1), 3, {"w": 10}, "250m", "3", id="workers first"),
        pytest.param((1, 1), 4, {}, "300m", "4", id="all"),
        pytest.param((None, 1), 2, {"m": 10}, "100m", "2", id="fewer than the minima together"),
    ],
)
def test_the_least_gang_takes_pods_of_higher_priority_first(
    minima: Any, minimum: int, priorities: dict[str, int], cpu: str, pods: str
) -> None:
    tasks = [
        task("master", 2, cpu="50m", minAvailable=minima[0], spec={"priorityClassName": "m"}),
        task("worker", 2, cpu="100m", minAvailable=minima[1], spec={"priorityClassName": "w"}),
    ]
    found = min_resources(
        parse_job(job(tasks=tasks, minAvailable=minimum), scheduler_name="volcano"), priorities
    )
    assert (found["cpu"], found["pods"]) == (cpu, pods)


def test_a_divided_task_is_a_sub_group_of_the_podgroup() -> None:
    topology = {"mode": "soft", "highestTierAllowed": 1}
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": topology}
    group = make_pod_group(job(tasks=[task("t", 4, partitionPolicy=partitions), task("other")]))
    assert group["spec"]["subGroupPolicy"] == [
        {
            "name": "t",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "t"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": topology,
        }
    ]
    assert group["spec"]["minTaskMember"] == {"t": 2, "other": 2}


@pytest.mark.parametrize(
    "topology", [{"mode": "soft", "highestTierName": "rack"}, {"mode": "hard", "highestTierAllowed": 2}]
)
def test_the_podgroup_carries_the_jobs_topology(topology: Manifest) -> None:
    assert make_pod_group(job(networkTopology=topology))["spec"]["networkTopology"] == topology


def legacy_group(cluster: Any, owner: Manifest) -> None:
    owned = {"name": "j", "ownerReferences": [owner_reference(owner)]}
    cluster.put(POD_GROUP, {"metadata": owned, "spec": {"minMember": 1}, "status": {"phase": "Running"}})


def test_a_podgroup_of_the_old_name_is_kept_and_in_the_end_deleted() -> None:
    cluster = world()
    owner = cluster.put(JOB, job())
    legacy_group(cluster, owner)
    cluster.settle()
    assert [key.name for key in cluster.objects[POD_GROUP]] == ["j"]
    assert cluster.objects[POD_GROUP][Key("default", "j")]["spec"]["minMember"] == 2
    assert (
        annotations_of(cluster.pods()[0])["scheduling.k8s.io/group-name"] == f"j-{owner['metadata']['uid']}"
    )
    command(cluster, "AbortJob")
    assert cluster.objects[POD_GROUP] == {}


def test_a_podgroup_of_another_owner_that_is_named_like_the_job_is_left_alone() -> None:
    cluster = world()
    cluster.put(POD_GROUP, {"metadata": {"name": "j"}, "spec": {"minMember": 9}})
    submit(cluster, job())
    cluster.settle()
    command(cluster, "AbortJob")
    cluster.settle()
    assert cluster.objects[POD_GROUP][Key("default", "j")]["spec"] == {"minMember": 9}


def test_the_podgroup_goes_with_the_job_and_stays_when_one_pod_restarts() -> None:
    cluster = running(job(policies=[policy("PodFailed", "RestartPod")]))
    before = cluster.group("j")
    cluster.finish("j-main-0", phase="Failed", exit_code=1)
    cluster.settle()
    assert before is not None
    after = cluster.group("j")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    command(cluster, "TerminateJob")
    assert cluster.group("j") is None


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_a_restart_aimed_at_nothing_deletes_nothing(action: str) -> None:
    cluster = running(job())
    before = cluster.pods()
    command(cluster, action)
    cluster.settle()
    assert (cluster.phase("j"), cluster.pods()) == ("Running", before)
    assert "retryCount" not in cluster.job("j")["status"]


def condition(kind: str, moment: int) -> Manifest:
    return {
        "type": kind,
        "status": "True",
        "message": "m",
        "lastTransitionTime": f"2027-01-15T08:00:0{moment}Z",
    }


def test_only_the_newest_condition_of_a_podgroup_counts() -> None:
    scheduled = {"status": {"conditions": [condition("Unschedulable", 1), condition("Scheduled", 2)]}}
    assert pending_condition(scheduled) is None
    waiting = {"status": {"conditions": [condition("Scheduled", 1), condition("Unschedulable", 2)]}}
    assert (pending_condition(waiting) or {})["type"] == "Unschedulable"


def test_the_podgroup_is_labelled_with_its_job_and_has_its_own_name() -> None:
    group = make_pod_group(job(minAvailable=1, priorityClassName="high", metadata={"labels": {"a": "b"}}))
    assert group["metadata"]["name"] == "j-u"
    assert labels_of(group) == {"a": "b", "volcano.sh/job-name": "j"}
    assert (group["spec"]["minMember"], group["spec"]["priorityClassName"]) == (1, "high")
    assert "status" not in group


def test_the_podgroups_status_is_never_written() -> None:
    cluster = running(job())
    cluster.set_group("j", "Running")
    cluster.change(JOB, Key("default", "j"), {"spec": {"minAvailable": 1, "priorityClassName": "high"}})
    cluster.settle()
    group = cluster.group("j")
    assert group is not None
    assert group["status"] == {"phase": "Running"}
    assert (group["spec"]["minMember"], group["spec"]["priorityClassName"]) == (1, "high")


def test_a_device_requested_without_a_limit_gets_one() -> None:
    resources = {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}}
    tasks = [task(spec={"containers": [{"name": "main", "resources": resources}]})]
    (container,) = make_pod(job(tasks=tasks))["spec"]["containers"]
    assert container["resources"] == {**resources, "limits": {"nvidia.com/gpu": "1"}}


def test_a_limit_without_a_request_counts_as_one() -> None:
    limits = {"nvidia.com/gpu": 4, "cpu": "16", "memory": "128Gi"}
    found = usage({"containers": [{"name": "main", "resources": {"limits": limits}}]})
    assert {
        name: str(found[name]) for name in ("cpu", "requests.memory", "nvidia.com/gpu", "limits.cpu")
    } == {
        "cpu": "16",
        "requests.memory": "128Gi",
        "nvidia.com/gpu": "4",
        "limits.cpu": "16",
    }


def test_init_containers_sidecars_and_overhead_count() -> None:
    def container(cpu: str, **fields: Any) -> Manifest:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "containers": [container("1"), container("2")],
        "initContainers": [container("500m", restartPolicy="Always"), container("4")],
        "overhead": {"cpu": "250m"},
    }
    assert str(usage(spec)["cpu"]) == "4750m"


def test_pods_on_the_host_network_still_resolve_the_clusters_names() -> None:
    assert (
        make_pod(job(tasks=[task(spec={"hostNetwork": True})]))["spec"]["dnsPolicy"]
        == "ClusterFirstWithHostNet"
    )


def test_what_a_job_leaves_out_is_filled_in_as_admission_would() -> None:
    partitions = {"totalPartitions": 3, "partitionSize": 3, "minPartitions": 2}
    tasks: list[Manifest] = [{"replicas": 2}, {"replicas": 9, "partitionPolicy": partitions}]
    parsed = parse_job(
        {"metadata": {"name": "j"}, "spec": {"tasks": tasks, "plugins": {"mpi": []}}}, scheduler_name="s"
    )
    assert [(t.name, t.minimum, t.max_retry) for t in parsed.tasks] == [
        ("default0", 2, 3),
        ("default1", 6, 3),
    ]
    assert (parsed.queue, parsed.scheduler_name, parsed.max_retry, parsed.min_available) == (
        "default",
        "s",
        3,
        8,
    )
    assert set(parsed.plugins or {}) == {"mpi", "svc", "ssh"}


def test_pods_and_their_group_have_the_user_of_the_job() -> None:
    manifest = job(tasks=[task()], metadata={"annotations": {"volcano.sh/user": "jane"}})
    assert annotations_of(make_pod(manifest))["volcano.sh/user"] == "jane"
    assert annotations_of(make_pod_group(manifest))["volcano.sh/user"] == "jane"

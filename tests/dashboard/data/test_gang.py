"""The gang of a job."""

from tests.dashboard.data.objects import group, job, objects, pod
from volcano.dashboard.data.gang import MISSING, JobView, job_view, tasks
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key

TRAIN = job("train", tasks={"master": 1, "worker": 3}, phase="Pending")


def view(*pods: dict[str, object]) -> JobView:
    found = job_view(
        objects({JOB: [TRAIN], POD: list(pods), POD_GROUP: [group("g", owner=TRAIN)]}),
        Key("default", "train"),
    )
    assert found is not None
    return found


def test_the_grid_has_a_cell_for_each_replica_also_without_a_pod() -> None:
    found = view(pod("train", "worker", 2), pod("train", "worker", 0, phase="Pending", node=""))
    master, worker = tasks(found)
    assert [cell.status for cell in master.cells] == [MISSING]
    assert [(cell.index, cell.status, cell.node) for cell in worker.cells] == [
        (0, "Pending", ""),
        (1, MISSING, ""),
        (2, "ContainerCreating", "node-0"),
    ]
    assert dict(worker.counts) == {"Pending": 1, MISSING: 1, "ContainerCreating": 1}


def test_pods_beyond_the_replicas_are_shown_too() -> None:
    found = view(pod("train", "worker", 7), pod("train", "old", 0))
    by_name = {task.name: task for task in tasks(found)}
    assert [cell.index for cell in by_name["worker"].cells] == [0, 1, 2, 7]
    assert [cell.pod for cell in by_name["old"].cells] == ["train-old-0"]


def test_a_job_is_found_with_its_podgroup_and_pods_in_order() -> None:
    found = view(pod("train", "worker", 10), pod("train", "worker", 9), pod("train", "master", 0))
    assert found.group is not None
    assert [each["metadata"]["name"] for each in found.pods] == [
        "train-master-0",
        "train-worker-9",
        "train-worker-10",
    ]


def test_a_podgroup_without_a_job_has_one_task() -> None:
    cluster = objects({POD_GROUP: [group("web")], POD: [pod("web", "x", n, group="web") for n in range(3)]})
    found = job_view(cluster, Key("default", "web"))
    assert found is not None
    assert [len(task.cells) for task in tasks(found)] == [3]
    assert len({cell.index for cell in tasks(found)[0].cells}) == 3


def test_a_job_that_does_not_exist_has_no_view() -> None:
    assert job_view(objects({JOB: [TRAIN]}), Key("team", "train")) is None


def test_what_was_computed_is_kept_for_pods_that_have_not_changed() -> None:
    kept, other = pod("train", "worker", 0), pod("train", "worker", 1)
    first = view(kept, other)
    same = job_view(objects({JOB: [TRAIN], POD: [other, kept]}), Key("default", "train"), first)
    assert same is not None
    assert same.pods is first.pods
    changed = pod("train", "worker", 1, phase="Failed", started=1.0, finished=2.0)
    third = job_view(objects({JOB: [TRAIN], POD: [kept, changed]}), Key("default", "train"), first)
    assert third is not None
    assert third.rows[0] is first.rows[0]
    assert [row.status for row in third.rows] != [row.status for row in first.rows]
    gone = job_view(objects({JOB: [TRAIN], POD: [kept]}), Key("default", "train"), first)
    assert gone is not None
    assert [row.key.name for row in gone.rows] == ["train-worker-0"]

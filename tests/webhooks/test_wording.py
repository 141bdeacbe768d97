"""Rejections contain Volcano's wording, which scripts match on, with the numbers of the object after it."""

from typing import Any

import pytest

from tests.webhooks.reviews import job, queue, review, task
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import CRON_JOB, HYPER_NODE, JOB, JOB_FLOW, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import mutate, validate

ANNOTATED = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1"}


def text_of(
    kind: Kind,
    new: Manifest | None,
    old: Manifest | None = None,
    *,
    options: AdmissionOptions | None = None,
    queues: list[Manifest] | None = None,
) -> str:
    """The message of the rejection, as the webhook returns it."""
    objects = {QUEUE: [queue("root"), queue("default", parent="root"), *(queues or [])]}
    request = review(kind, new, old, objects, options)
    defaulted = mutate(request) if new is not None else None
    return "; ".join(map(str, validate(review(kind, defaulted, old, objects, options))))


def policies(*given: Manifest) -> Manifest:
    return job(policies=list(given))


def annotated(**annotations: str) -> Manifest:
    names = {name.replace("_", "-"): value for name, value in annotations.items()}
    metadata = {"name": "p", "annotations": {f"volcano.sh/{name}": value for name, value in names.items()}}
    return {"metadata": metadata, "spec": {"schedulerName": "volcano", "containers": []}}


SMALL = {"minAvailable": 3}
JOBS = [
    (job(minAvailable=-1), "job 'minAvailable' must be >= 0"),
    (job(maxRetry=-1), "'maxRetry' cannot be less than zero"),
    (job(ttlSecondsAfterFinished=-1), "'ttlSecondsAfterFinished' cannot be less than zero"),
    ({"metadata": {"name": "j"}, "spec": {}}, "No task specified in job spec"),
    (job(plugins={"mpi": []}), "The specified mpi master task was not found"),
    (job(task("a", -2)), "'replicas' < 0 in task: a, job: train"),
    (job(task("a", 2, minAvailable=-1)), "'minAvailable' < 0 in task: a, job: train"),
    (job(task("a", 2, **SMALL)), "'minAvailable' is greater than 'replicas' in task: a, job: train (3 > 2)"),
    (job(task("a"), task("a")), "duplicated task name a"),
    (job(minAvailable=9), "job 'minAvailable' should not be greater than total replicas in tasks: 9 of 2"),
    (job(task("a" * 60)), f"create pod with name train-{'a' * 60}-0 validate failed"),
    (job(name="x" * 64), f"create job with name {'x' * 64} validate failed"),
    (policies({"event": "PodFailed", "exitCode": 1}), "must not specify event and exitCode simultaneously"),
    (policies({"action": "AbortJob"}), "either event and exitCode should be specified"),
    (policies({"event": "Nothing", "action": "AbortJob"}), "invalid policy event"),
    (policies({"event": "PodFailed", "action": "Nothing"}), "invalid policy action"),
    (
        policies(*[{"event": "PodFailed", "action": "AbortJob"}] * 2),
        "duplicate event PodFailed  across different policy",
    ),
    (policies({"exitCode": 0, "action": "AbortJob"}), "0 is not a valid error code"),
    (policies(*[{"exitCode": 3, "action": "AbortJob"}] * 2), "duplicate exitCode 3"),
    (
        policies({"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "AbortJob"}),
        "if there's * here, no other policy should be here",
    ),
    (job(plugins={"none": []}), "unable to find job plugin: none"),
    (job(volumes=[{}]), "mountPath is required"),
    (job(volumes=[{"mountPath": "/a", "volumeClaimName": "b"}] * 2), "duplicated mountPath: /a"),
    (job(volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName must be specified"),
    (
        job(volumes=[{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "b"}]),
        "conflict: If you want to use an existing PVC, just specify VolumeClaimName.",
    ),
    (job(volumes=[{"mountPath": "/a", "volumeClaimName": "B"}]), "invalid VolumeClaimName B :"),
    (job(queue="none"), 'unable to find job queue: queues.scheduling.volcano.sh "none" not found'),
    (
        job(queue="shut"),
        "can only submit job to queue with state `Open`, queue `shut` status is `Closed`",
    ),
    (job(queue="root"), "can not submit job to root queue"),
    (job(queue="parent"), "can only submit job to leaf queue"),
    (
        job(task("a", dependsOn={"name": ["a"]})),
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
    ),
    (
        job(task("a", topologyPolicy="best-effort")),
        "the cpu request isn't an integer in spec.tasks[0]",
    ),
    (job(task("a", partitionPolicy={})), ""),
    (
        job(task("a", partitionPolicy={"totalPartitions": 0, "partitionSize": 1})),
        "'TotalPartitions' must be greater than 0",
    ),
    (
        job(task("a", partitionPolicy={"totalPartitions": 1, "partitionSize": 0})),
        "'PartitionSize' must be greater than 0",
    ),
    (
        job(task("a", partitionPolicy={"totalPartitions": 1, "partitionSize": 1})),
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
    ),
    (
        job(networkTopology={"highestTierAllowed": 1, "highestTierName": "x"}),
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
    ),
]
BESIDE = [queue("shut", state="Closed"), queue("parent"), queue("child", parent="parent")]


@pytest.mark.parametrize(
    ("manifest", "wording"), JOBS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_rejected_job_is_told_in_volcanos_words(manifest: Manifest, wording: str) -> None:
    text = text_of(JOB, manifest, queues=BESIDE)
    assert wording in text if wording else text == ""


def test_a_rejected_template_is_told_in_volcanos_words() -> None:
    causes = [Cause("FieldValueRequired", "Required value", "spec.containers[0].image")]
    options = AdmissionOptions(check_template=lambda template: causes)
    assert "spec.tasks[0].template.spec.containers[0].image: Required value" in text_of(
        JOB, job(), options=options
    )
    (violation,) = validate(review(JOB, mutate(review(JOB, job())), None, None, options))
    assert violation.field == "spec.tasks[0].template.spec.containers[0].image"


@pytest.mark.parametrize(
    ("change", "wording"),
    [
        ({"tasks": [task("worker", -1)]}, "'replicas' must be >= 0 in task: worker"),
        ({"tasks": [task("worker", minAvailable=-1)]}, "'minAvailable' must be >= 0 in task: worker"),
        (
            {"tasks": [task("worker", 2, minAvailable=3)]},
            "'minAvailable' must be <= 'replicas' in task: worker",
        ),
        ({"tasks": [task("worker", 2, minAvailable=3)]}, "'minAvailable' is greater than 'replicas' in task"),
        ({"minAvailable": 9}, "job 'minAvailable' must not be greater than total replicas"),
        ({"minAvailable": -1}, "job 'minAvailable' must be >= 0"),
        ({"tasks": [task(), task("other")]}, "job updates may not add or remove tasks"),
        ({"queue": "other"}, "job updates may not change fields other than `minAvailable`"),
    ],
)
def test_a_rejected_update_of_a_job_is_told_in_volcanos_words(change: dict[str, Any], wording: str) -> None:
    old = job(minAvailable=2)
    assert wording in text_of(JOB, {**old, "spec": {**old["spec"], **change}}, old)


@pytest.mark.parametrize(
    ("manifest", "wording"),
    [
        (
            queue("a", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}),
            "deserved[cpu] must be >= guarantee[cpu]=2",
        ),
        (
            queue("a", deserved={"cpu": "2"}, capability={"cpu": "1"}),
            "deserved[cpu]=2 must be <= capability[cpu]=1",
        ),
        (queue("a", capability={"cpu": "-1"}), "must be greater than or equal to 0"),
        (queue("a", weight=-1), "queue weight must be a positive integer"),
        (queue("a", state="Ajar"), "queue state must be in [Open Closed"),
        (
            queue("a", annotations=ANNOTATED),
            "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
        ),
        (
            queue("a", annotations={**ANNOTATED, "volcano.sh/hierarchy-weights": "1/x"}),
            "x in the 1/x is invalid number",
        ),
        (
            queue("a", annotations={**ANNOTATED, "volcano.sh/hierarchy-weights": "1/0"}),
            "0 in the 1/0 must be larger than 0",
        ),
        (queue("a", parent="a"), "cannot use itself as parent"),
        (queue("a", parent="none"), "failed to get parent queue of queue a"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rejected_queue_is_told_in_volcanos_words(manifest: Manifest, wording: str) -> None:
    assert wording in text_of(QUEUE, manifest)


def test_deletions_of_queues_are_rejected_in_volcanos_words() -> None:
    assert "`default` queue can not be deleted" in text_of(QUEUE, None, queue("default"))
    text = text_of(QUEUE, None, queue("parent"), queues=BESIDE)
    assert "queue parent can not be deleted because it has 1 child queues: child" in text


@pytest.mark.parametrize(
    ("kind", "manifest", "wording"),
    [
        (
            POD,
            annotated(jdb_min_available="1", jdb_max_unavailable="1"),
            "not allow configure multiple annotations <[volcano.sh/jdb-min-available volcano.sh/jdb-max-unavailable]> "
            "at same time",
        ),
        (
            POD,
            annotated(jdb_min_available="0"),
            'invalid value <"0"> for volcano.sh/jdb-min-available, it must be a positive integer',
        ),
        (POD, annotated(jdb_min_available="100%"), "it must be a valid percentage which between 1% ~ 99%"),
        (POD, annotated(jdb_min_available="NaN"), 'invalid value <"NaN"> for volcano.sh/jdb-min-available'),
        (
            POD_GROUP,
            {"metadata": {"name": "g"}, "spec": {"queue": "none"}},
            'unable to find queue: queues.scheduling.volcano.sh "none" not found',
        ),
        (
            POD_GROUP,
            {"metadata": {"name": "g"}, "spec": {"queue": "shut"}},
            "can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closed`",
        ),
        (
            JOB_FLOW,
            {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}},
            "jobflow Flow is not DAG: vertex is not defined: b",
        ),
        (
            JOB_FLOW,
            {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]}},
            "jobflow Flow is not DAG",
        ),
        (HYPER_NODE, {"metadata": {"name": "h"}, "spec": {}}, "member must have at least one member"),
        (
            HYPER_NODE,
            {
                "metadata": {"name": "h"},
                "spec": {"members": [{"selector": {"regexMatch": {"pattern": "("}}}]},
            },
            "member regexMatch pattern is invalid",
        ),
        (
            CRON_JOB,
            {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "timeZone": "-x"}},
            "unknown timeZone",
        ),
        (
            CRON_JOB,
            {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "timeZone": "No/Where"}},
            "invalid timeZone",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_rejected_objects_are_told_in_volcanos_words(
    kind: Kind, manifest: Manifest, wording: str
) -> None:
    assert wording in text_of(kind, manifest, queues=BESIDE)

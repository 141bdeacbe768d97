"""What a deletion comes to, by kind, finalizers, grace period and policy."""

import pytest

from tests.apiserver.registries import pod
from volcano.apiserver.registry.deletion import (
    CRD_CLEANUP,
    FOREGROUND,
    ORPHAN,
    DeletionPlan,
    is_finished,
    plan_deletion,
)
from volcano.base.clock import Instant
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.kinds import BATCH_JOB, CONFIG_MAP, CRD, DEPLOYMENT, NAMESPACE, POD, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Options

NOW = Instant(1_800_000_000.0, 0.0)
GONE = DeletionPlan(remove=True)


def thing(*finalizers: str, **more: object) -> Manifest:
    metadata: Manifest = {"name": "x", "uid": "u", "generation": 1, **more}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("kind", "propagation", "present", "left"),
    [
        pytest.param(CONFIG_MAP, "", (), [], id="plain: gone at once"),
        pytest.param(DEPLOYMENT, "", (), [], id="workloads are deleted in the background by default"),
        pytest.param(BATCH_JOB, "", (), [ORPHAN], id="batch jobs orphan their pods by default"),
        pytest.param(BATCH_JOB, "Background", (), [], id="unless told otherwise"),
        pytest.param(DEPLOYMENT, "Foreground", (), [FOREGROUND], id="foreground waits"),
        pytest.param(DEPLOYMENT, "Orphan", ("a",), ["a", ORPHAN], id="orphaning waits, beside others"),
        pytest.param(DEPLOYMENT, "Background", (FOREGROUND,), [], id="a later policy replaces the earlier"),
        pytest.param(DEPLOYMENT, "", (FOREGROUND,), [FOREGROUND], id="no policy keeps the earlier"),
        pytest.param(CRD, "", (), [CRD_CLEANUP], id="CRDs wait for their objects"),
    ],
)
def test_finalizers_follow_from_the_policy(
    kind: Kind, propagation: str, present: tuple[str, ...], left: list[str]
) -> None:
    manifest = thing(*present)
    fate = plan_deletion(kind, manifest, Options(propagation=propagation), NOW)
    assert fate.remove is (not left)
    if left:
        assert manifest["metadata"]["finalizers"] == left
        assert manifest["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
        assert manifest["metadata"]["generation"] == 2


def test_a_second_deletion_changes_nothing() -> None:
    manifest = thing("hold")
    plan_deletion(CONFIG_MAP, manifest, Options(), NOW)
    assert plan_deletion(CONFIG_MAP, manifest, Options(), NOW) == DeletionPlan(remove=False, changed=False)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(BadRequest, match='Unsupported value: "Slowly"'):
        plan_deletion(CONFIG_MAP, thing(), Options(propagation="Slowly"), NOW)


@pytest.mark.parametrize(
    ("spec", "phase", "grace", "expected"),
    [
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", None, 7, id="its own"),
        pytest.param(
            {"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", 3, 3, id="as asked for"
        ),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", -5, 1, id="negative"),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", 0, 0, id="none"),
        pytest.param({"terminationGracePeriodSeconds": 7}, "Pending", None, 0, id="not on a node"),
        pytest.param({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Failed", None, 0, id="finished"),
    ],
)
def test_a_pod_gets_its_grace_period(spec: Manifest, phase: str, grace: int | None, expected: int) -> None:
    manifest = {**thing(), "spec": spec, "status": {"phase": phase}}
    fate = plan_deletion(POD, manifest, Options(grace_seconds=grace), NOW)
    assert fate.remove is (expected == 0)
    assert manifest["metadata"]["deletionGracePeriodSeconds"] == expected


def test_a_grace_period_can_only_be_shortened() -> None:
    manifest = {**pod(nodeName="n", terminationGracePeriodSeconds=30), "status": {"phase": "Running"}}
    manifest["metadata"]["uid"] = "u"
    plan_deletion(POD, manifest, Options(), NOW)
    assert manifest["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    later = Instant(NOW.wall + 5, 5.0)
    assert plan_deletion(POD, manifest, Options(grace_seconds=40), later) == DeletionPlan(
        remove=False, changed=False
    )
    assert plan_deletion(POD, manifest, Options(grace_seconds=10), later).changed
    assert manifest["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:10Z"
    assert plan_deletion(POD, manifest, Options(grace_seconds=2), later) == DeletionPlan(remove=False)
    assert manifest["metadata"]["deletionGracePeriodSeconds"] == 1, "its time is up, but its node ends it"
    assert plan_deletion(POD, manifest, Options(grace_seconds=0), later) == GONE


def test_a_pod_held_by_a_finalizer_outlives_its_grace_period() -> None:
    manifest = {**thing("hold"), "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    assert plan_deletion(POD, manifest, Options(grace_seconds=0), NOW) == DeletionPlan(remove=False)
    assert not is_finished(POD, manifest)
    del manifest["metadata"]["finalizers"]
    assert is_finished(POD, manifest)


def test_a_namespace_waits_for_its_content() -> None:
    manifest = {**thing(), "spec": {"finalizers": ["kubernetes"]}}
    assert plan_deletion(NAMESPACE, manifest, Options(), NOW) == DeletionPlan(remove=False)
    assert manifest["status"] == {"phase": "Terminating"}
    assert not is_finished(NAMESPACE, manifest)
    manifest["spec"]["finalizers"] = []
    assert is_finished(NAMESPACE, manifest)

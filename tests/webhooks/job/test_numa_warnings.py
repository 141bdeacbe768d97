"""A NUMA policy that has no effect is accepted with a warning."""

from typing import Any

import pytest

from tests.webhooks.reviews import job, review, task
from volcano.kube.api.kinds import JOB, POD, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.rules import warnings

POLICY = "volcano.sh/numa-topology-policy"


def pod(policy: str, **resources: Any) -> Manifest:
    return {
        "metadata": {"name": "p", "namespace": "default", "annotations": {POLICY: policy}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


FULL = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        pytest.param(pod("restricted", limits=FULL), "", id="guaranteed"),
        pytest.param(pod("none", requests=FULL), "", id="no policy"),
        pytest.param(pod("restricted", requests=FULL), "the pod is not Guaranteed", id="burstable"),
        pytest.param(
            pod("restricted", limits={"cpu": "500m", "memory": "1Gi"}), "whole number of cpus", id="fraction"
        ),
        pytest.param(
            pod("strict", limits=FULL), "strict is not a topology policy; choose from none", id="unknown"
        ),
        pytest.param({"metadata": {"name": "p"}, "spec": {"containers": 3}}, "", id="malformed"),
    ],
)
def test_a_pod_is_warned_about_a_policy_without_effect(manifest: Manifest, text: str) -> None:
    found = warnings(review(POD, manifest))
    assert bool(found) is bool(text)
    assert all(text in each and each.startswith(f"metadata.annotations[{POLICY}]: ") for each in found)


def test_a_job_is_warned_for_each_task() -> None:
    limited = task("a", topologyPolicy="restricted")
    limited["template"]["spec"]["containers"][0]["resources"] = {"limits": FULL}
    burstable = task("b", topologyPolicy="restricted")
    found = warnings(review(JOB, job(limited, burstable)))
    assert [each.partition(":")[0] for each in found] == ["spec.tasks[1].topologyPolicy"]


def test_other_kinds_and_deletions_have_no_warnings() -> None:
    assert warnings(review(QUEUE, {"metadata": {"name": "q"}})) == []
    assert warnings(review(POD, None, pod("restricted", requests=FULL))) == []

"""cdp: pods that just started are not evicted."""

import pytest

from tests.builders import START, job, node, pod, podgroup
from tests.scenario import session
from volcano.base.clock import timestamp
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.engine.answers import EvictionContext, Purpose

COOLDOWN = "volcano.sh/cooldown-time"


def victims(*pods: Manifest, purpose: Purpose = Purpose.PREEMPT) -> list[str]:
    made = session(
        nodes=[node("n1", cpu=10)],
        podgroups=[podgroup("g")],
        pods=pods,
        jobs=[job("taker", 1)],
        plugins=["cdp"],
    )
    taker = made.snapshot.jobs["default/taker"]
    context = EvictionContext(purpose, taker, next(iter(taker.tasks.values())))
    return [
        task.name
        for task in made.policy.victims(context, list(made.snapshot.jobs["default/g"].tasks.values()))
    ]


def running(
    name: str, cooldown: str, ago: float, *, by_label: bool = False, phase: str = "Running"
) -> Manifest:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(START - ago)}
    note = {"labels" if by_label else "annotations": {COOLDOWN: cooldown}}
    return pod(name, group="g", node="n1", phase=phase, status={"conditions": [scheduled]}, **note)  # type: ignore[arg-type]


@pytest.mark.parametrize("by_label", [True, False], ids=["label", "annotation"])
@pytest.mark.parametrize("purpose", [Purpose.PREEMPT, Purpose.RECLAIM])
def test_a_pod_is_protected_until_its_cooldown_is_over(by_label: bool, purpose: Purpose) -> None:
    pods = [
        running("fresh", "600s", 100, by_label=by_label),
        running("old", "600s", 800, by_label=by_label),
        running("odd", "600abcde", 100, by_label=by_label),
    ]
    assert sorted(victims(*pods, purpose=purpose)) == ["odd", "old"]


def test_pods_without_a_cooldown_are_not_protected() -> None:
    assert victims(pod("plain", group="g", node="n1")) == ["plain"]


def test_pods_that_do_not_run_yet_are_not_protected() -> None:
    assert victims(running("starting", "600s", 1, phase="Pending")) == ["starting"]

"""Every hook of a plugin is called in some cycle, and every method of the policy is used."""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import volcano.scheduler
from tests.builders import job, node, pod, podgroup, queue
from tests.scenario import schedule, session
from tests.scheduler.topology.clusters import gang, hypernode, topology
from volcano.scheduler.engine.answers import Vote
from volcano.scheduler.engine.arguments import Arguments
from volcano.scheduler.engine.plugin import HOOKS, Plugin
from volcano.scheduler.engine.policy import Policy
from volcano.scheduler.engine.switches import HOOKS_OF_SWITCH, SWITCHES, disabled

ROOT = Path(volcano.scheduler.__file__).parent
CALLED: set[str] = set()
# Results other than those of the base class, so that the cycle goes where the hook is called.
RESULTS: Mapping[str, Callable[..., Any]] = {
    "score_nodes": lambda task, nodes: nodes.used[:, 0],
    "job_starving": lambda job: 9,
    "preemptable": lambda context, candidates: candidates,
    "preemptive": lambda queue, tasks: False,
    "below_deserved": lambda queue, tasks: True,
    "reclaimable": lambda context, candidates: candidates,
    "victim_tasks": lambda candidates: candidates,
}


def recorded(hook: str) -> Callable[..., Any]:
    def method(self: Plugin, *subject: Any) -> Any:
        CALLED.add(hook)
        return RESULTS[hook](*subject) if hook in RESULTS else getattr(Plugin, hook)(self, *subject)

    return method


class Recorder(Plugin):
    """Overrides every hook."""

    vars().update({hook: recorded(hook) for hook in HOOKS})


class Full(Plugin):
    """Limits every queue to nothing."""

    def allocatable(self, queue: object, task: object, count: int) -> int:
        return 0


class NeverReady(Plugin):
    """Has every placement undone."""

    def job_short(self, job: object) -> int:
        return 99

    def job_pipelined(self, job: object) -> Vote:
        return Vote.REJECT


ALL_ACTIONS = (
    "enqueue", "allocate", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "backfill",
)  # fmt: skip
SUB_GROUPS = [
    {"name": "p", "labelSelector": {}, "matchLabelKeys": ["part"], "subGroupSize": 1, "minSubGroups": 1}
]


@pytest.fixture
def called() -> set[str]:
    CALLED.clear()
    return CALLED


def test_every_hook_is_called(called: set[str]) -> None:
    recorder, full, never_ready = (f"{__name__}:{name}" for name in ("Recorder", "Full", "NeverReady"))
    running = [
        job(name, 2, queue=name, on="n1", phase="Running", min_available=1, group={"preemptable": True})
        for name in ("a", "b")
    ]
    waiting = job("c", 2, queue="c", phase="Pending", min_resources={"cpu": "2"})
    for action in ("preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"):
        schedule(
            nodes=[node("n1", cpu=4)],
            queues=[queue("a"), queue("b"), queue("c")],
            jobs=[*running, waiting, job("d", 2, queue="b")],
            plugins=[recorder],
            actions=("enqueue", action),
        )
    schedule(
        nodes=[node("n1", cpu=4), node("n2", cpu=4)],
        podgroups=[podgroup("pg", min_member=2, subGroupPolicy=SUB_GROUPS)],
        pods=[pod(f"p-{i}", group="pg", labels={"part": str(i)}) for i in range(2)],
        plugins=[recorder],
    )
    schedule(
        nodes=[node("n1", cpu=4), node("n2", cpu=4)],
        jobs=[gang("j", 2, 1, topology(tier=1))],
        others=[hypernode("a", 1, ["n1"]), hypernode("b", 1, ["n2"])],
        plugins=[recorder],
    )
    for other in (full, never_ready):
        schedule(nodes=[node("n1", cpu=4)], jobs=[job("j", 2)], plugins=[recorder, other])
    assert called == HOOKS


def test_a_hook_that_is_switched_off_is_not_called(called: set[str]) -> None:
    for switch, hooks in HOOKS_OF_SWITCH.items():
        assert disabled({switch: False}) == set(hooks) <= HOOKS
        assert disabled({switch: True}) == frozenset()
    schedule(
        nodes=[node("n1")],
        jobs=[job("j", 1)],
        plugins=[{"name": f"{__name__}:Recorder", **dict.fromkeys(SWITCHES, False)}],
        actions=ALL_ACTIONS,
    )
    assert called & {hook for hooks in HOOKS_OF_SWITCH.values() for hook in hooks} == set()
    assert {"open", "close", "job_valid", "on_allocate"} <= called


def test_a_hook_that_a_plugin_does_not_use_is_not_called() -> None:
    made = session(plugins=["drf"])
    assert not made.policy.hooks("queue_order")
    made.policy.plugins[0].open(Arguments())
    assert made.policy.hooks("job_order")


def test_every_method_of_the_policy_beside_the_hooks_is_used() -> None:
    used = {
        attribute.attr
        for path in ROOT.rglob("*.py")
        if path.name != "policy.py" and not path.is_relative_to(ROOT / "plugins")
        for attribute in ast.walk(ast.parse(path.read_text()))
        if isinstance(attribute, ast.Attribute)
    }
    public = {name for name in vars(Policy) if not name.startswith("_")}
    assert public - used - HOOKS == set()

"""Feature gates: parsed by all programs in the same way, and with an effect."""

import pytest

from tests.builders import START, node, pod, priority_class
from tests.scheduler.plugins.test_pdb import budget
from tests.scheduler.test_loop import bench
from volcano.base.metrics import CollectorRegistry
from volcano.cmd import controllers, scheduler, webhooks
from volcano.cmd.feature_gates import DEFAULTS, parse_gates
from volcano.controllers.podgroup import UNGATED_WORKLOADS
from volcano.controllers.queue import QueueController
from volcano.kube.api import kinds
from volcano.kube.api.kinds import COMMAND, POD_DISRUPTION_BUDGET, PRIORITY_CLASS, REPLICA_SET, STATEFUL_SET

ON = {name for name, value in DEFAULTS.items() if value}
WEBHOOK = ["--webhook-url=https://127.0.0.1:1"]


def test_gates_have_the_defaults_of_volcano() -> None:
    assert parse_gates("") == ON
    assert {"CSIStorage", "SchedulingGatesQueueAdmission"} == DEFAULTS.keys() - ON


def test_gates_are_switched_one_by_one_or_all_at_once() -> None:
    assert parse_gates("PriorityClass=false, CSIStorage=True") == ON - {"PriorityClass"} | {"CSIStorage"}
    assert parse_gates("AllAlpha=false,QueueCommandSync=true") == {"QueueCommandSync"}
    assert parse_gates("AllAlpha=true") == DEFAULTS.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PriorityClasses=true", "'PriorityClasses' is unknown; did you mean PriorityClass?"),
        ("Nonsense=true", "'Nonsense' is unknown; choose from WorkLoadSupport"),
        ("PriorityClass", "write PriorityClass=true or PriorityClass=false"),
        ("PriorityClass=perhaps", "write PriorityClass=true or PriorityClass=false"),
    ],
)
def test_unknown_gates_and_values_are_rejected_by_all_programs(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for main, more in ((scheduler.main, []), (controllers.parse, []), (webhooks.parse, WEBHOOK)):
        with pytest.raises(SystemExit):
            main([f"--feature-gates={text}", *more])
        assert message in capsys.readouterr().err


def watched(name: str, gates: str) -> set[str]:
    arguments = controllers.parse([f"--feature-gates={gates}"])
    made = controllers.CONTROLLERS[name](arguments, CollectorRegistry())
    return {watch.kind.resource for watch in made.watches}


def test_controllers_do_not_watch_what_a_gate_disables() -> None:
    assert COMMAND.resource in watched("queue-controller", "")
    assert COMMAND.resource not in watched("queue-controller", "QueueCommandSync=false")
    both = {REPLICA_SET.resource, STATEFUL_SET.resource}
    assert both <= watched("pg-controller", "")
    assert not both & watched("pg-controller", "WorkLoadSupport=false")
    assert {kind.resource for kind in UNGATED_WORKLOADS} <= watched("pg-controller", "WorkLoadSupport=false")
    assert isinstance(QueueController(commands=False), QueueController)


async def test_the_scheduler_ignores_kinds_of_disabled_gates() -> None:
    parsed = scheduler.build_parser().parse_args(
        ["--feature-gates=PodDisruptionBudgetsSupport=false,PriorityClass=false,ResourceTopology=false"]
    )
    ignored = scheduler._ignored_kinds(parsed)
    assert ignored == {POD_DISRUPTION_BUDGET, PRIORITY_CLASS, kinds.NUMATOPOLOGY}
    async with bench(ignored_kinds=ignored) as b:
        await b.add(node("n1"), priority_class("high", 10))
        await b.client.create(POD_DISRUPTION_BUDGET, _new(budget("b", 1)))
        await b.add(pod("p", group="none"))

        async def seen() -> bool:
            snapshot = b.scheduler.cluster.snapshot(START)
            return len(snapshot.nodes) == 1

        await b.until(seen)
        snapshot = b.scheduler.cluster.snapshot(START)
        assert (snapshot.budgets, snapshot.priorities) == ((), {})


def _new(manifest: dict[str, object]) -> dict[str, object]:
    return {**manifest, "metadata": {"name": "b", "namespace": "default"}}


def test_the_flag_for_priorities_is_one_of_the_gates() -> None:
    parsed = scheduler.build_parser().parse_args(["--priority-class=false"])
    parsed.gates = parse_gates("")
    assert scheduler._ignored_kinds(parsed) == {PRIORITY_CLASS}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--scheduler-sharding-mode=hard"],
            "one scheduler serves all nodes here, NodeShards have no effect",
        ),
        (["--plugins-dir=/plugins"], "plugins are Python packages"),
    ],
)
def test_what_is_out_of_scope_is_rejected_with_a_reason(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        scheduler.main(arguments)
    assert message in capsys.readouterr().err


def test_several_schedulers_that_divide_the_jobs_are_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MULTI_SCHEDULER_ENABLE", "true")
    with pytest.raises(SystemExit):
        scheduler.main([])
    assert (
        "MULTI_SCHEDULER_ENABLE=true is not provided: one scheduler serves all jobs"
        in capsys.readouterr().err
    )

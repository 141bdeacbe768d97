"""priority: higher priority goes first."""

import pytest

from tests.builders import JobManifests, job, node, pod, podgroup, priority_class
from tests.scenario import schedule, session
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.priority import Priority

CLASSES = [priority_class("high", 1000), priority_class("low", 100)]


def test_the_job_of_the_higher_class_is_placed() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        jobs=[job("modest", 1, priority_class="low"), job("urgent", 1, priority_class="high")],
        others=CLASSES,
        plugins=["priority", "gang", "predicates"],
    )
    assert list(result.bound()) == ["urgent-worker-0"]


def test_the_pod_of_the_higher_priority_goes_first_within_a_job() -> None:
    result = schedule(
        nodes=[node("n1", cpu=1)],
        podgroups=[podgroup("pg", min_member=1)],
        pods=[pod("first", group="pg", priority=1), pod("second", group="pg", priority=9)],
        plugins=["priority", "gang", "predicates"],
    )
    assert list(result.bound()) == ["second"]


def loaded(*jobs: JobManifests) -> tuple[Session, Priority]:
    made = session(nodes=[node("n1", cpu=10)], jobs=jobs, others=CLASSES, plugins=["priority"])
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Priority)
    return made, plugin


def victims(purpose: Purpose, preemptor: str, victim: str) -> int:
    made, plugin = loaded(
        job("preemptor", 1, priority_class=preemptor), job("victim", 1, priority_class=victim, on="n1")
    )
    job_, candidates = (
        made.snapshot.jobs["default/preemptor"],
        list(made.snapshot.jobs["default/victim"].tasks.values()),
    )
    context = EvictionContext(purpose, job_, next(iter(job_.tasks.values())))
    hooks = {
        Purpose.PREEMPT: plugin.preemptable,
        Purpose.GANG_PREEMPT: plugin.unified_evictable,
        Purpose.GANG_RECLAIM: plugin.unified_evictable,
        Purpose.RECLAIM: plugin.filter_victims,
    }
    return len(hooks[purpose](context, candidates))


@pytest.mark.parametrize(
    ("purpose", "preemptor", "victim", "count"),
    [
        pytest.param(Purpose.PREEMPT, "high", "low", 1, id="higher takes from lower"),
        pytest.param(Purpose.PREEMPT, "high", "high", 0, id="not from its equal"),
        pytest.param(Purpose.PREEMPT, "low", "high", 0, id="not from its better"),
        pytest.param(Purpose.GANG_PREEMPT, "high", "high", 0, id="gangpreempt only from strictly lower"),
        pytest.param(Purpose.GANG_PREEMPT, "high", "low", 1, id="gangpreempt from lower"),
        pytest.param(Purpose.GANG_RECLAIM, "low", "high", 1, id="gangreclaim from any priority"),
        pytest.param(Purpose.RECLAIM, "low", "high", 1, id="between queues priorities do not count"),
    ],
)
def test_preemption_by_priority(purpose: Purpose, preemptor: str, victim: str, count: int) -> None:
    assert victims(purpose, preemptor, victim) == count


def test_inside_a_job_the_tasks_priorities_count() -> None:
    made = session(
        nodes=[node("n1")],
        podgroups=[podgroup("pg")],
        pods=[
            pod("new", group="pg", priority=5),
            pod("low", group="pg", priority=1, node="n1"),
            pod("same", group="pg", priority=5, node="n1"),
        ],
        plugins=["priority"],
    )
    tasks = {task.name: task for task in made.snapshot.jobs["default/pg"].tasks.values()}
    context = EvictionContext(Purpose.PREEMPT, made.snapshot.jobs["default/pg"], tasks["new"])
    found = made.policy.victims(context, [tasks["low"], tasks["same"]])
    assert [task.name for task in found] == ["low"]


def test_a_refusal_by_priority_is_not_overruled_by_a_later_tier() -> None:
    """drf alone would let the small job preempt the large one."""
    made = session(
        nodes=[node("n1", cpu=10)],
        jobs=[job("small", 1), job("large", 6, min_available=0, on="n1")],
        tiers=[["priority"], ["drf"]],
    )
    small, large = made.snapshot.jobs["default/small"], made.snapshot.jobs["default/large"]
    context = EvictionContext(Purpose.PREEMPT, small, next(iter(small.tasks.values())))
    drf = made.policy.plugins[1]
    assert len(drf.preemptable(context, list(large.tasks.values()))) > 0  # type: ignore[arg-type]
    assert made.policy.victims(context, list(large.tasks.values())) == []


def test_a_job_starves_until_all_its_tasks_have_a_place() -> None:
    made, plugin = loaded(job("part", 2, min_available=1, on=["n1"]), job("whole", 1, on="n1"))
    assert plugin.job_starving(made.snapshot.jobs["default/part"])
    assert not plugin.job_starving(made.snapshot.jobs["default/whole"])

"""gang: all or nothing."""

import pytest

from tests.builders import job, node, pod, podgroup, resources
from tests.scenario import schedule, session
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Purpose
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.gang import Gang

PLUGINS = ("gang", "predicates")


@pytest.mark.parametrize(
    ("cpus", "minimum", "bound"),
    [
        pytest.param(2, 3, 0, id="the gang does not fit: no task starts"),
        pytest.param(3, 3, 3, id="exact fit: all start"),
        pytest.param(2, 2, 2, id="minimum met: the third member waits"),
        pytest.param(2, 0, 2, id="no minimum: tasks that fit start"),
    ],
)
def test_gang_starts_all_or_none(cpus: int, minimum: int, bound: int) -> None:
    result = schedule(
        nodes=[node("n1", cpu=cpus)], jobs=[job("train", 3, min_available=minimum)], plugins=PLUGINS
    )
    assert len(result.bound()) == bound


def test_without_gang_two_jobs_split_the_room_and_neither_is_whole() -> None:
    jobs = [job("a", 3, cpu=1), job("b", 3, cpu=1)]
    split = schedule(nodes=[node("n1", cpu=4)], jobs=jobs, plugins=["drf", "predicates"])
    whole = schedule(nodes=[node("n1", cpu=4)], jobs=jobs, plugins=["gang", "drf", "predicates"])
    assert len(split.bound()) == 4
    assert sorted(whole.bound()) == ["a-worker-0", "a-worker-1", "a-worker-2"]


def test_a_role_that_fits_nowhere_does_not_block_the_others() -> None:
    result = schedule(
        nodes=[node("n1", cpu=2, memory="4Gi", labels={"nodeRole": "worker"})],
        podgroups=[podgroup("pg1", min_member=1)],
        pods=[
            pod("p1", group="pg1", role="master", spec={"nodeSelector": {"nodeRole": "master"}}),
            pod("p2", group="pg1", role="worker", spec={"nodeSelector": {"nodeRole": "worker"}}),
        ],
        plugins=["gang", "drf", "proportion", "predicates", "nodeorder"],
    )
    assert result.bound() == {"p2": "n1"}


def test_a_role_below_its_minimum_blocks_the_whole_job() -> None:
    to_master, to_worker = ({"nodeSelector": {"role": role}} for role in ("master", "worker"))
    result = schedule(
        nodes=[
            node("n1", cpu=1, labels={"role": "master"}),
            node("n2", cpu=2, labels={"role": "worker"}),
        ],
        podgroups=[podgroup("pg1", min_member=2, min_task_member={"master": 2, "worker": 0})],
        pods=[
            *(pod(f"m{i}", group="pg1", role="master", spec=to_master) for i in range(2)),
            *(pod(f"w{i}", group="pg1", role="worker", spec=to_worker) for i in range(2)),
        ],
        plugins=["gang", "drf", "proportion", "predicates", "nodeorder"],
    )
    assert result.bound() == {}


def test_pods_that_ask_for_nothing_count_towards_the_minimum() -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        podgroups=[podgroup("mixed", min_member=4)],
        pods=[
            *(pod(f"mixed-cpu-{i}", group="mixed") for i in range(2)),
            *(pod(f"mixed-free-{i}", None, group="mixed") for i in range(2)),
        ],
        plugins=PLUGINS,
    )
    assert len(result.bound()) == 4, "best-effort pods count"


def test_min_resources_must_be_reached_before_any_task_starts() -> None:
    """minMember alone would let one pod start; minResources require three cpus."""
    wanted = resources(cpu=3)

    def bound(cpus: int) -> int:
        needy = job("needy", 4, min_available=1, min_resources=wanted)
        return len(schedule(nodes=[node("n1", cpu=cpus)], jobs=[needy], plugins=PLUGINS).bound())

    assert bound(2) == 0
    assert bound(3) == 3


def test_min_resources_beyond_what_the_pods_ask_for_do_not_lock_a_job_out() -> None:
    modest = job("modest", 2, min_resources=resources(cpu=100))
    assert len(schedule(nodes=[node("n1", cpu=2)], jobs=[modest], plugins=PLUGINS).bound()) == 2


def test_min_resources_do_not_wait_for_pods_that_something_else_holds_back() -> None:
    held_back = pod("e-2", group="e", gates=["example.com/wait"])
    result = schedule(
        nodes=[node("n1", cpu=4)],
        podgroups=[podgroup("e", min_member=2, min_resources=resources(cpu=3))],
        pods=[pod("e-0", group="e"), pod("e-1", group="e"), held_back],
        plugins=PLUGINS,
    )
    assert sorted(result.bound()) == ["e-0", "e-1"]


def test_a_job_that_runs_gets_replacements_one_by_one() -> None:
    running = job("r", 3, min_available=1, min_resources=resources(cpu=3), on=["n1"])
    assert len(schedule(nodes=[node("n1", cpu=2)], jobs=[running], plugins=PLUGINS).bound()) == 1


@pytest.mark.parametrize(
    ("group", "pods", "message"),
    [
        pytest.param({"min_member": 3}, ["worker"] * 2, "Not enough valid tasks", id="too few tasks"),
        pytest.param(
            {"min_member": 3, "min_task_member": {"ps": 1}},
            ["worker"] * 3,
            "Not enough valid pods of each task",
            id="a role is missing",
        ),
    ],
)
def test_a_job_that_can_never_start_is_not_valid(
    group: dict[str, object], pods: list[str], message: str
) -> None:
    made = session(
        nodes=[node("n1")],
        podgroups=[podgroup("pg", **group)],  # type: ignore[arg-type]
        pods=[pod(f"p{i}", group="pg", role=role) for i, role in enumerate(pods)],
        plugins=["gang"],
    )
    rejection = made.policy.job_valid(made.snapshot.jobs["default/pg"])
    assert rejection is not None
    assert (rejection.code, rejection.message.startswith(message)) == (Code.WAITING_FOR_PODS, True)


def test_role_minimums_beyond_the_jobs_own_are_not_looked_at() -> None:
    made = session(
        podgroups=[podgroup("pg", min_member=1, min_task_member={"ps": 2})],
        pods=[pod("p", group="pg")],
        plugins=["gang"],
    )
    assert made.policy.job_valid(made.snapshot.jobs["default/pg"]) is None


def gang_and(made: Session) -> Gang:
    plugin = made.policy.plugins[0]
    assert isinstance(plugin, Gang)
    return plugin


def test_jobs_short_of_their_minimum_go_first() -> None:
    made = session(
        nodes=[node("n1")], jobs=[job("run", 2, min_available=1, on=["n1"]), job("wait", 1)], plugins=["gang"]
    )
    ordered = sorted(made.snapshot.jobs.values(), key=gang_and(made).job_order)
    assert [each.name for each in ordered] == ["wait", "run"]


def context(made: Session, *, break_gangs: bool = False) -> EvictionContext:
    taker = made.snapshot.jobs["default/taker"]
    return EvictionContext(Purpose.PREEMPT, taker, next(iter(taker.tasks.values())), break_gangs)


def running(made: Session, name: str) -> list[Task]:
    return sorted(made.snapshot.jobs[f"default/{name}"].tasks.values(), key=lambda task: task.name)


def test_victims_come_from_what_a_gang_has_beyond_its_minimum() -> None:
    made = session(
        nodes=[node("n1")], jobs=[job("v", 4, min_available=2, on="n1"), job("taker", 1)], plugins=["gang"]
    )
    allowed = gang_and(made).preemptable(context(made), running(made, "v"))
    assert [task.name for task in allowed] == ["v-worker-0", "v-worker-1"]
    assert len(gang_and(made).preemptable(context(made, break_gangs=True), running(made, "v"))) == 4


def test_victims_leave_every_role_its_minimum() -> None:
    made = session(
        nodes=[node("n1")],
        podgroups=[podgroup("v", min_member=2, min_task_member={"ps": 1})],
        pods=[
            pod("v-ps-0", group="v", role="ps", node="n1"),
            *(pod(f"v-worker-{i}", group="v", role="worker", node="n1") for i in range(3)),
        ],
        jobs=[job("taker", 1)],
        plugins=["gang"],
    )
    allowed = gang_and(made).preemptable(context(made), running(made, "v"))
    assert [task.name for task in allowed] == ["v-worker-0", "v-worker-1"]


def test_what_was_placed_and_undone_is_forgotten() -> None:
    made = session(nodes=[node("n1")], jobs=[job("train", 3)], plugins=["gang"])
    train = made.snapshot.jobs["default/train"]
    with made.ledger.statement():
        for task in train.tasks.values():
            made.ledger.allocate(task, 0)
        assert made.policy.job_ready(train)
    assert made.policy.job_short(train) == 3


def test_enough_sub_groups_have_to_be_whole() -> None:
    policy = {
        "name": "g",
        "labelSelector": {},
        "matchLabelKeys": ["part"],
        "subGroupSize": 1,
        "minSubGroups": 2,
    }

    def bound(parts: list[str]) -> int:
        result = schedule(
            nodes=[node("n1", cpu=4)],
            podgroups=[podgroup("pg", min_member=2, subGroupPolicy=[policy])],
            pods=[pod(f"p-{i}", group="pg", labels={"part": part}) for i, part in enumerate(parts)],
            plugins=PLUGINS,
        )
        return len(result.bound())

    assert bound(["a", "b"]) == 2
    assert bound(["a", "a"]) == 0


def test_enough_groups_of_every_policy_have_to_be_whole() -> None:
    """One master, and two groups of two workers each: five pods of two cpus need five nodes of two."""
    policies = [
        {
            "name": "master",
            "labelSelector": {"matchLabels": {"kind": "master"}},
            "matchLabelKeys": ["part"],
            "subGroupSize": 1,
            "minSubGroups": 1,
        },
        {
            "name": "worker",
            "labelSelector": {"matchLabels": {"kind": "worker"}},
            "matchLabelKeys": ["part"],
            "subGroupSize": 2,
            "minSubGroups": 2,
        },
    ]
    members = [("master", "m"), ("worker", "x"), ("worker", "x"), ("worker", "y"), ("worker", "y")]

    def bound(nodes: int) -> int:
        result = schedule(
            nodes=[node(f"n{i}", cpu=2) for i in range(nodes)],
            podgroups=[podgroup("pg", min_member=5, subGroupPolicy=policies)],
            pods=[
                pod(f"p-{i}", 2, group="pg", labels={"kind": kind, "part": part})
                for i, (kind, part) in enumerate(members)
            ],
            plugins=PLUGINS,
        )
        return len(result.bound())

    assert bound(4) == 0
    assert bound(5) == 5


@pytest.mark.parametrize(
    ("pending", "said"),
    [pytest.param(0, False, id="no task waits"), pytest.param(1, True, id="a replacement waits")],
)
def test_terminating_pods_count_towards_the_minimum_until_they_are_deleted(pending: int, said: bool) -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        podgroups=[podgroup("pg", min_member=2, phase="Running")],
        pods=[
            pod("stays", group="pg", node="n1"),
            pod("goes", group="pg", node="n1", deleting=True),
            *(pod(f"new-{i}", 2, group="pg") for i in range(pending)),
        ],
        plugins=PLUGINS,
    )
    assert bool(result.condition("pg")) is said


def test_a_waiting_gang_has_a_condition() -> None:
    result = schedule(
        nodes=[node("n1", cpu=2)],
        jobs=[job("busy", 2, on="n1", phase="Running"), job("waits", 2)],
        plugins=PLUGINS,
    )
    assert "2/2 tasks in gang unschedulable" in result.condition("waits")
    assert "Insufficient cpu" in result.condition("waits")
    assert result.condition("busy") == ""


def test_missing_pods_are_named_by_role_with_what_they_depend_on() -> None:
    depends = {"volcano.sh/task-depends-on": '{"worker": ["master"]}'}
    group = podgroup(
        "j", min_member=3, min_task_member={"master": 1, "worker": 2}, annotations=depends, phase="Inqueue"
    )
    master = pod("j-master-0", group="j", role="master")
    result = schedule(nodes=[node("n1")], podgroups=[group], pods=[master], plugins=PLUGINS)
    text = "gang-scheduling; worker has 0 of 2 pods, it depends on master"
    assert text in result.condition("j")
    odd = podgroup(
        "k", min_member=2, min_task_member={"w": 2}, annotations={"volcano.sh/task-depends-on": "["}
    )
    result = schedule(
        nodes=[node("n1")], podgroups=[odd], pods=[pod("k-w-0", group="k", role="w")], plugins=PLUGINS
    )
    assert "; w has 1 of 2 pods" in result.condition("k")

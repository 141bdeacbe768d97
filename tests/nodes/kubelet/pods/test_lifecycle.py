"""Pod lifecycle, without processes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes.kubelet.pods.bench import container
from tests.nodes.kubelet.pods.pod_player import PodPlayer, sidecar
from volcano.kube.api.manifest import TERMINAL_PHASES, Manifest
from volcano.nodes.kubelet.container_state import containers_of
from volcano.nodes.kubelet.probe_state import ProbeKind


@pytest.mark.parametrize(
    ("policy", "code", "phase", "starts"),
    [
        pytest.param("Never", 0, "Succeeded", ["c#0"], id="never, well"),
        pytest.param("Never", 3, "Failed", ["c#0"], id="never, badly"),
        pytest.param("OnFailure", 0, "Succeeded", ["c#0"], id="on failure, well"),
        pytest.param("OnFailure", 3, "Running", ["c#0", "c#1"], id="on failure, badly"),
        pytest.param("Always", 0, "Running", ["c#0", "c#1"], id="always, well"),
        pytest.param("Always", 3, "Running", ["c#0", "c#1"], id="always, badly"),
    ],
)
def test_what_a_restart_policy_makes_of_an_exit_code(
    policy: str, code: int, phase: str, starts: list[str]
) -> None:
    play = PodPlayer(restartPolicy=policy).end("c", code)
    assert play.phase == phase
    assert play.starts == starts


@pytest.mark.parametrize(
    ("rules", "code", "restarts"),
    [
        pytest.param({"operator": "In", "values": [42]}, 42, 1, id="a code that is named"),
        pytest.param({"operator": "In", "values": [42]}, 1, 0, id="a code that is not"),
        pytest.param({"operator": "NotIn", "values": [42]}, 1, 1, id="all but some"),
        pytest.param({"operator": "NotIn", "values": [42]}, 42, 0, id="one of those"),
    ],
)
def test_a_container_may_have_restart_rules_of_its_own(rules: Manifest, code: int, restarts: int) -> None:
    own = container(restartPolicy="Never", restartPolicyRules=[{"action": "Restart", "exitCodes": rules}])
    assert PodPlayer(own, restartPolicy="Never").end("c", code).run().restarts == restarts


def test_pauses_double_from_ten_seconds_to_five_minutes() -> None:
    play, pauses = PodPlayer(), []
    for _ in range(9):
        play.end("c", 1)
        pauses.append(max(play.run().retry_at - play.now, 0))
        play.wait(pauses[-1])
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_container_that_ran_for_more_than_ten_minutes_resets_its_back_off() -> None:
    play = PodPlayer().end("c", 1).end("c", 1).wait(10).end("c", 1).wait(20)
    play.wait(601).end("c", 1)
    assert play.run().running
    assert play.end("c", 1).run().retry_at == play.now + 10


def test_a_waiting_container_reports_its_back_off() -> None:
    play = PodPlayer().end("c", 1).end("c", 2)
    entry = play.entry()
    assert entry["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=c pod=p_default(u)",
    }
    assert entry["lastState"]["terminated"]["exitCode"] == 2
    assert entry["restartCount"] == 1
    assert play.phase == "Running"
    assert play.condition("Ready")["reason"] == "ContainersNotReady"
    assert play.condition("Ready")["message"] == "containers with unready status: [c]"


def test_after_several_restarts_the_last_state_is_that_of_the_start_before() -> None:
    play = PodPlayer().end("c", 1).end("c", 2).wait(10)
    entry = play.entry()
    assert "running" in entry["state"]
    assert entry["lastState"]["terminated"]["exitCode"] == 2
    assert entry["restartCount"] == 2


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    play = PodPlayer(initContainers=[container("a"), container("b")], restartPolicy="Never")
    assert play.starts == ["a#0"]
    assert play.phase == "Pending"
    assert play.entry("c")["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert play.condition("Initialized")["message"] == "containers with incomplete status: [a b]"
    play.end("a")
    assert play.starts == ["a#0", "b#0"]
    play.end("b")
    assert play.starts == ["a#0", "b#0", "c#0"]
    assert play.phase == "Running"
    assert play.condition("Initialized")["status"] == "True"
    assert [play.entry(name)["ready"] for name in "abc"] == [True, True, True]


def test_a_failed_init_container_fails_a_pod_that_is_not_restarted() -> None:
    play = PodPlayer(initContainers=[container("a")], restartPolicy="Never").end("a", 4)
    assert play.phase == "Failed"
    assert play.starts == ["a#0"]
    assert play.condition("Ready")["reason"] == "PodFailed"


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_failed_init_container_is_tried_again_elsewhere(policy: str) -> None:
    play = PodPlayer(initContainers=[container("a")], restartPolicy=policy).end("a", 4)
    assert play.starts == ["a#0", "a#1"]
    assert play.phase == "Pending"
    play.end("a", 4)
    assert play.entry("a")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert play.wait(10).end("a", 0).starts == ["a#0", "a#1", "a#2", "c#0"]


STARTUP = {"exec": {"command": ["up"]}, "periodSeconds": 1, "failureThreshold": 3}


def test_a_sidecar_must_be_up_before_the_next_container_starts() -> None:
    play = PodPlayer(
        initContainers=[sidecar("s", startupProbe={**STARTUP, "initialDelaySeconds": 5}), container("a")]
    )
    assert play.starts == ["s#0"]
    play.wait(5)
    assert play.starts == ["s#0", "a#0"]
    assert play.phase == "Pending"
    assert play.end("a").starts == ["s#0", "a#0", "c#0"]


def test_a_sidecar_is_restarted_whatever_the_policy_and_blocks_no_container() -> None:
    play = PodPlayer(initContainers=[sidecar("s")], restartPolicy="Never")
    play.end("s", 1).end("s", 0)
    assert play.starts == ["s#0", "c#0", "s#1"]
    assert play.phase == "Running"
    assert play.wait(10).starts[-1] == "s#2"


def test_sidecars_end_after_the_rest_in_reverse_order() -> None:
    play = PodPlayer(initContainers=[sidecar("first"), sidecar("second")], restartPolicy="Never")
    play.stubborn = {"second"}
    play.end("c", 0)
    assert play.performed[-1] == "term second"
    assert "term first" not in play.performed
    assert play.phase == "Running"
    play.wait(5)
    play.end("second", 0)
    assert play.performed[-2:] == ["term first", "release"]
    assert play.phase == "Succeeded"


def test_a_sidecar_that_ignores_term_delays_the_others_but_does_not_prevent_their_end() -> None:
    play = PodPlayer(initContainers=[sidecar("first"), sidecar("second")], restartPolicy="Never")
    play.stubborn = {"first", "second"}
    play.end("c", 0).wait(30)
    assert play.performed[-2:] == ["term first", "kill second"]
    assert play.wait(2).performed[-2:] == ["kill first", "release"]


def test_a_sidecars_exit_code_does_not_count() -> None:
    play = PodPlayer(initContainers=[sidecar("s")], restartPolicy="Never").end("c", 0)
    assert play.entry("s")["state"]["terminated"]["exitCode"] == 143
    assert play.phase == "Succeeded"


def test_deletion_asks_waits_kills_and_then_removes() -> None:
    play = PodPlayer(container("polite"), container("stubborn"))
    play.stubborn = {"stubborn"}
    play.delete(grace=8)
    assert play.performed[-2:] == ["term polite", "term stubborn"]
    play.wait(7)
    assert "kill stubborn" not in play.performed
    play.wait(1)
    assert play.performed[-2:] == ["kill stubborn", "release"]
    assert play.removed
    assert play.phase == "Failed"


def test_a_shorter_grace_given_later_cuts_the_longer_one_short() -> None:
    play = PodPlayer()
    play.stubborn = {"c"}
    play.delete(grace=100).wait(5)
    play.delete(grace=3).wait(4)
    assert "kill c" in play.performed


def test_even_without_grace_a_container_has_two_seconds() -> None:
    play = PodPlayer()
    play.stubborn = {"c"}
    play.delete(grace=0)
    assert "kill c" not in play.performed
    assert "kill c" in play.wait(2).performed


def test_a_pod_deleted_before_it_ran_is_removed_at_once() -> None:
    play = PodPlayer()
    play.pod_state.runs.clear()
    play.pod_state.prepared = False
    play.delete()
    assert play.removed


def test_nothing_is_started_in_a_pod_that_is_deleted() -> None:
    play = PodPlayer(initContainers=[container("a")])
    play.stubborn = {"a"}
    play.delete().wait(60)
    assert play.starts == ["a#0"]


def test_the_pre_stop_hook_comes_out_of_the_grace() -> None:
    hook = {"preStop": {"exec": {"command": ["bye"]}}}
    play = PodPlayer(container(lifecycle=hook))
    play.hooks_hang, play.stubborn = True, {"c"}
    play.delete(grace=10).wait(9)
    assert "term c" not in play.performed
    play.wait(1)
    assert play.performed[-1] == "term c"
    assert play.wait(2).performed[-2:] == ["kill c", "release"]


def test_a_pod_over_its_deadline_is_killed_and_failed() -> None:
    play = PodPlayer(activeDeadlineSeconds=60, terminationGracePeriodSeconds=5)
    play.stubborn = {"c"}
    play.wait(60)
    assert play.phase == "Running"
    play.wait(5)
    status = play.status()
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"


def test_a_missing_program_is_a_start_error() -> None:
    play = _refusing("StartError", restartPolicy="Never")
    assert play.phase == "Failed"
    assert play.entry()["state"]["terminated"]["exitCode"] == 128
    assert play.entry()["state"]["terminated"]["reason"] == "StartError"


def test_a_missing_program_is_tried_again_where_the_policy_says_so() -> None:
    play = _refusing("StartError")
    assert play.entry()["state"]["waiting"]["reason"] == "RunContainerError"
    play.wait(10)
    assert play.starts == ["c#0", "c#1"]
    assert play.entry()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert play.entry()["restartCount"] == 1


def test_what_cannot_be_created_waits_and_counts_as_no_restart() -> None:
    play = _refusing("CreateContainerConfigError").wait(30)
    assert play.entry()["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": "missing",
    }
    assert play.entry()["restartCount"] == 0
    assert play.phase == "Pending"
    play.start_errors.clear()
    assert play.wait(10).phase == "Running"


def _refusing(reason: str, **fields: Any) -> PodPlayer:
    class FailingStart(PodPlayer):
        def settle(self) -> PodPlayer:
            if not self.performed:
                self.start_errors = {"c": reason}
            return super().settle()

    return FailingStart(**fields)


def test_containers_start_one_after_the_other_but_do_not_wait_for_each_others_back_off() -> None:
    play = PodPlayer(container("a"), container("b"))
    assert play.starts == ["a#0", "b#0"]
    play.end("a", 1).end("a", 1).end("b", 1)
    assert play.starts == ["a#0", "b#0", "a#1", "b#1"]


LIVENESS = {"exec": {"command": ["ok"]}, "periodSeconds": 5, "failureThreshold": 2}


@pytest.mark.parametrize(
    ("policy", "message", "phase"),
    [
        pytest.param(
            "Always", "Container c failed liveness probe, will be restarted", "Running", id="restarted"
        ),
        pytest.param(
            "OnFailure", "Container c failed liveness probe, will be restarted", "Running", id="too"
        ),
        pytest.param("Never", "Container c failed liveness probe", "Failed", id="not restarted"),
    ],
)
def test_a_container_that_fails_its_liveness_probe_is_killed(policy: str, message: str, phase: str) -> None:
    play = PodPlayer(container(livenessProbe=LIVENESS), restartPolicy=policy)
    play.answers["c", ProbeKind.LIVENESS] = False
    play.wait(9)
    assert play.run().running
    play.wait(1)
    assert f"stop c: {message}" in play.performed
    assert play.phase == phase


def test_a_probe_may_grant_less_grace_than_the_pod() -> None:
    play = PodPlayer(container(livenessProbe={**LIVENESS, "terminationGracePeriodSeconds": 3}))
    play.stubborn = {"c"}
    play.answers["c", ProbeKind.LIVENESS] = False
    assert "kill c" not in play.wait(12).performed
    assert "kill c" in play.wait(1).performed
    assert play.run().restarts == 1


def test_a_container_is_ready_when_its_probe_says_so_and_only_then() -> None:
    probe = {"exec": {"command": ["ok"]}, "periodSeconds": 1, "successThreshold": 2, "initialDelaySeconds": 3}
    play = PodPlayer(container(readinessProbe=probe))
    assert play.condition("Ready")["status"] == "False"
    play.wait(3)
    assert play.entry()["ready"] is False
    play.wait(1)
    assert play.entry()["ready"] is True
    assert play.condition("Ready")["status"] == "True"
    play.answers["c", ProbeKind.READINESS] = False
    assert play.wait(2).entry()["ready"] is True
    assert play.wait(1).entry()["ready"] is False
    assert play.run().running


def test_other_probes_wait_for_the_startup_probe() -> None:
    play = PodPlayer(container(startupProbe={**STARTUP, "initialDelaySeconds": 4}, livenessProbe=LIVENESS))
    assert play.entry()["started"] is False
    play.wait(3)
    assert play.performed == ["start c#0"]
    play.wait(1)
    assert play.performed[1:] == ["ask c startup"]
    assert play.entry()["started"] is True
    assert play.wait(11).performed[2:] == ["ask c liveness"] * 3


def test_a_container_that_never_comes_up_is_killed() -> None:
    play = PodPlayer(container(startupProbe={**STARTUP, "initialDelaySeconds": 1}))
    play.answers["c", ProbeKind.STARTUP] = False
    play.wait(2)
    assert play.run().restarts == 0
    assert play.wait(1).run().restarts == 1
    assert "stop c: Container c failed startup probe, will be restarted" in play.performed


def test_a_probe_that_cannot_be_run_changes_nothing() -> None:
    play = PodPlayer(container(livenessProbe=LIVENESS))
    play.answers["c", ProbeKind.LIVENESS] = None
    assert play.wait(100).run().restarts == 0


def test_readiness_gates_hold_a_pod_back() -> None:
    play = PodPlayer(readinessGates=[{"conditionType": "example.com/gate"}])
    assert play.condition("ContainersReady")["status"] == "True"
    ready = play.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    play.pod["status"]["conditions"].append({"type": "example.com/gate", "status": "True"})
    assert play.condition("Ready")["status"] == "True"


def test_an_ephemeral_container_runs_once_beside_the_others() -> None:
    play = PodPlayer()
    play.pod["spec"]["ephemeralContainers"] = [container("debug")]
    play.containers = containers_of(play.pod)
    play.settle().end("debug", 1)
    assert play.starts == ["c#0", "debug#0"]
    assert play.phase == "Running"
    assert play.status()["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


# Random sequences of events.

CODES = st.sampled_from([0, 1, 137])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.integers(0, 5), CODES),
        st.tuples(st.just("wait"), st.integers(0, 700), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("answer"), st.integers(0, 5), st.integers(0, 2)),
    ),
    max_size=14,
)


@st.composite
def plays(draw: st.DrawFn) -> PodPlayer:
    probed = {
        "livenessProbe": {"exec": {}, "periodSeconds": draw(st.integers(1, 20)), "failureThreshold": 2},
        "readinessProbe": {"exec": {}, "periodSeconds": draw(st.integers(1, 20))},
    }
    inits = [
        sidecar(f"i{place}") if draw(st.booleans()) else container(f"i{place}")
        for place in range(draw(st.integers(0, 2)))
    ]
    mains = [
        container(f"m{place}", **(probed if draw(st.booleans()) else {}))
        for place in range(draw(st.integers(1, 2)))
    ]
    fields: dict[str, Any] = {"restartPolicy": draw(st.sampled_from(["Always", "OnFailure", "Never"]))}
    if draw(st.booleans()):
        fields["activeDeadlineSeconds"] = draw(st.integers(1, 900))
    play = PodPlayer(*mains, initContainers=inits, **fields)
    play.stubborn = draw(st.sets(st.sampled_from([c["name"] for c in [*inits, *mains]])))
    return play


@settings(max_examples=80, deadline=None)
@given(play=plays(), steps=STEPS)
def test_whatever_happens_the_rules_hold(play: PodPlayer, steps: list[tuple[str, int, int]]) -> None:
    restarts: dict[str, int] = {}
    phase = play.phase
    for what, number, code in steps:
        deleted = "deletionTimestamp" in play.pod["metadata"]
        started = len(play.starts)
        _step(play, what, number, code)
        assert phase not in TERMINAL_PHASES or play.phase == phase, "a terminal phase was left"
        assert not (deleted or phase in TERMINAL_PHASES) or len(play.starts) == started, (
            "started after the end"
        )
        phase = play.phase
        for name in play.containers:
            count = play.entry(name)["restartCount"] if "containerStatuses" in play.status() else 0
            assert count >= restarts.get(name, 0), "a restart count fell"
            restarts[name] = count
        _check(play)
    play.delete(grace=5).wait(60)
    assert play.removed, "a deleted pod never went"
    assert not any(run.active for run in play.pod_state.runs.values())


def _step(play: PodPlayer, what: str, number: int, code: int) -> None:
    live = [name for name, run in play.pod_state.runs.items() if run.running]
    if what == "end" and live:
        play.end(live[number % len(live)], code)
    elif what == "wait":
        play.wait(number)
    elif what == "delete":
        play.delete(grace=number)
    elif what == "answer":
        kind = ProbeKind.LIVENESS if number % 2 else ProbeKind.READINESS
        play.answers[f"m{number % 2}", kind] = (True, False, None)[code]


def _check(play: PodPlayer) -> None:
    """Invariants of a pod."""
    if play.pod["spec"]["restartPolicy"] == "Never":
        for name in play.containers:
            if not name.startswith("i"):
                assert play.starts.count(f"{name}#1") == 0, "a pod that is not restarted was"
    first_main = next((place for place, line in enumerate(play.starts) if line.startswith("m")), None)
    if first_main is not None:
        begun = {line.partition("#")[0] for line in play.starts[:first_main]}
        assert {name for name in play.containers if name.startswith("i")} <= begun
    if play.phase in TERMINAL_PHASES:
        assert not any(run.active for run in play.pod_state.runs.values()), "over, and something still runs"
    ready = play.condition("Ready")["status"]
    mains = [play.run(name) for name in play.containers if name.startswith("m")]
    assert ready == "False" or all(run.running for run in mains)
    assert play.sync_at > play.now, "something was left undone"

"""Faults under load: every gang whole or pending, no node over-allocated, no pod bound twice, every job finished."""

import itertools
import signal
import time
from collections.abc import Iterator

import pytest

from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.faultproxy import FaultProxy
from tests.k8s.load import Load
from tests.k8s.plain import History, until
from tests.k8s.programs import ELECTION, Programs, programs_on

pytestmark = pytest.mark.k8s

MIX = {"plain": 8, "abort": 1, "retry": 1, "leader": 2, "giant": 1}
FINISHED_WITHIN = 90.0
NODES = 5  # few enough that the load fills them, so that an over-allocation is seen
FAILING_FOR = 3.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def proxy(whole_control_plane: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    """The proxy between our programs and the API server; injects faults only inside `failing`."""
    cluster = whole_control_plane
    running = FaultProxy(cluster.url, cluster.token, tmp_path_factory.mktemp("proxy"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def programs(
    whole_control_plane: RealCluster, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Programs]:
    with programs_on(whole_control_plane, tmp_path_factory) as running:
        running.prepare()
        running.start("controllers", *ELECTION, kubeconfig=proxy.kubeconfig)
        running.start("scheduler", *ELECTION, kubeconfig=proxy.kubeconfig)
        running.start_webhook(kubeconfig=proxy.kubeconfig)
        running.start_nodes(NODES)
        running.wait_ready(NODES)
        yield running


@pytest.fixture
def history(programs: Programs) -> Iterator[History]:
    recorded = History(programs.api)
    yield recorded
    recorded.stop()


@pytest.fixture
def load(programs: Programs, history: History) -> Iterator[Load]:
    """Submitted jobs with some pods placed already."""
    made = Load(programs.api, f"faults-{next(_numbers)}", MIX)
    until(made.under_way, 60.0, programs.logs)
    yield made
    programs.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.mark.parametrize("program", ["scheduler", "controllers", "webhooks"])
def test_a_program_that_is_killed_continues_after_its_restart(
    programs: Programs, load: Load, history: History, program: str
) -> None:
    before = programs.running[program].starts
    programs.kill(program)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert programs.running[program].starts == before + 1
    assert load.broken(history) == []


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_jobs_finish_after_a_restart_of_the_control_plane(
    programs: Programs, load: Load, history: History, program: str
) -> None:
    programs.cluster.kill(program)
    time.sleep(1.5)
    programs.cluster.restart(program)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert load.broken(history) == []


@pytest.mark.parametrize(
    ("fault", "share"),
    [
        pytest.param("429", 0.5, id="too many requests"),
        pytest.param("500", 0.3, id="internal errors"),
        pytest.param("hang", 0.1, id="requests that are never answered"),
        pytest.param("reset", 0.3, id="connections that break before the request is read"),
        pytest.param("lost answers", 0.3, id="connections that break before the answer is sent"),
        pytest.param("watches", 0.2, id="watches that break in the middle of an event"),
    ],
)
def test_requests_are_retried_when_the_server_fails_now_and_then(
    programs: Programs, proxy: FaultProxy, load: Load, history: History, fault: str, share: float
) -> None:
    before = proxy.injected[fault]
    with proxy.failing(fault, share):
        time.sleep(FAILING_FOR)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert proxy.injected[fault] > before
    assert load.broken(history) == []


def test_jumps_of_the_wall_clock_have_no_effect(programs: Programs, load: Load, history: History) -> None:
    jumps = {"scheduler": signal.SIGUSR2, "controllers": signal.SIGHUP, "nodes": signal.SIGUSR2}
    back = {signal.SIGUSR2: signal.SIGHUP, signal.SIGHUP: signal.SIGUSR2}
    starts = {name: found.starts for name, found in programs.running.items()}
    for name, direction in jumps.items():
        programs.signal(name, direction)
    time.sleep(FAILING_FOR / 2)
    for name, direction in jumps.items():
        for _ in range(2):
            programs.signal(name, back[direction])
            time.sleep(0.2)
    time.sleep(FAILING_FOR / 2)
    for name, direction in jumps.items():
        programs.signal(name, direction)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert {name: found.starts for name, found in programs.running.items()} == starts
    assert load.broken(history) == []


def test_two_schedulers_at_once_violate_no_invariant(programs: Programs, history: History) -> None:
    programs.start("scheduler-2", "--leader-elect=false")
    load = Load(programs.api, f"faults-{next(_numbers)}", {"sturdy": 14, "giant": 1}, every=0.05)
    try:
        load.finish(FINISHED_WITHIN, programs.logs)
        assert load.broken(history, several_schedulers=True) == []
    finally:
        programs.end("scheduler-2")

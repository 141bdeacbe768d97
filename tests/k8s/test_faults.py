"""Whatever fails under load: every gang whole or pending, no node over-allocated, no pod bound twice, all work done."""

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
NODES = 5  # few enough that the load fills them: room that is given away twice shows
FAILING_FOR = 3.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def proxy(whole_control_plane: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    """Stands between our programs and the API server all the time; fails only when told to."""
    cluster = whole_control_plane
    standing = FaultProxy(cluster.url, cluster.token, tmp_path_factory.mktemp("proxy"))
    yield standing
    standing.stop()


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
    kept = History(programs.api)
    yield kept
    kept.stop()


@pytest.fixture
def load(programs: Programs, history: History) -> Iterator[Load]:
    """Jobs on their way, some pods placed already."""
    made = Load(programs.api, f"faults-{next(_numbers)}", MIX)
    until(made.under_way, 60.0, programs.logs)
    yield made
    programs.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.mark.parametrize("victim", ["scheduler", "controllers", "webhooks"])
def test_a_program_that_is_killed_carries_on_where_it_was(
    programs: Programs, load: Load, history: History, victim: str
) -> None:
    before = programs.running[victim].starts
    programs.kill(victim)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert programs.running[victim].starts == before + 1
    assert load.broken(history) == []


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd"])
def test_a_control_plane_that_is_killed_costs_nothing_but_time(
    programs: Programs, load: Load, history: History, victim: str
) -> None:
    programs.cluster.kill(victim)
    time.sleep(1.5)
    programs.cluster.restart(victim)
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
def test_a_server_that_fails_now_and_then_is_asked_again(
    programs: Programs, proxy: FaultProxy, load: Load, history: History, fault: str, share: float
) -> None:
    struck = proxy.happened[fault]
    with proxy.failing(fault, share):
        time.sleep(FAILING_FOR)
    load.finish(FINISHED_WITHIN, programs.logs)
    assert proxy.happened[fault] > struck
    assert load.broken(history) == []


def test_clocks_that_jump_do_not_matter(programs: Programs, load: Load, history: History) -> None:
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


def test_two_schedulers_at_once_break_nothing(programs: Programs, history: History) -> None:
    programs.start("scheduler-2", "--leader-elect=false")
    load = Load(programs.api, f"faults-{next(_numbers)}", {"sturdy": 14, "giant": 1}, every=0.05)
    try:
        load.finish(FINISHED_WITHIN, programs.logs)
        assert load.broken(history, several_schedulers=True) == []
    finally:
        programs.end("scheduler-2")

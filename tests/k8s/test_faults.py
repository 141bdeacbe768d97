"""Whatever fails under load: every gang whole or pending, no node over-allocated, no pod bound twice, all work done."""

import itertools
import time
from collections.abc import Iterator

import pytest

from tests.k8s.control_plane.cluster import RealCluster
from tests.k8s.load import Load
from tests.k8s.plain import History, until
from tests.k8s.programs import ELECTION, Programs, programs_on

pytestmark = pytest.mark.k8s

MIX = {"plain": 8, "abort": 1, "retry": 1, "leader": 2, "giant": 1}
FINISHED_WITHIN = 90.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def programs(
    whole_control_plane: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Programs]:
    with programs_on(whole_control_plane, tmp_path_factory) as running:
        running.prepare()
        running.start("controllers", *ELECTION)
        running.start("scheduler", *ELECTION)
        running.start_webhook()
        running.start_nodes()
        running.wait_ready()
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

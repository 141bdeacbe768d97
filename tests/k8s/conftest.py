"""Fixtures of the suites on a real API server: a whole control plane with all our programs, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano.scheduler
from tests.conftest import started
from tests.k8s.programs import ELECTION, Programs, programs_on

NODES, CPUS = 4, 16
CONFIGURATION = Path(volcano.scheduler.__file__).parent / "conf" / "volcano-scheduler-preempt.conf"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Four nodes of four cpus, our programs, and kube-scheduler and kube-controller-manager beside them."""
    for cluster in started(tmp_path_factory, controllers=True, scheduler=True):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare()
            running.start("controllers", *ELECTION)
            running.start("scheduler", *ELECTION, "--scheduler-conf", str(CONFIGURATION))
            running.start_webhook()
            running.start_nodes(NODES, "cpu=4,memory=8Gi")
            running.wait_ready(NODES)
            yield running

"""Open MPI over ssh, on every runtime of local nodes."""

import socket

import pytest

from tests.embedded.program import Setting
from tests.frameworks.examples import completed, fails_without, log_lines, needs

pytestmark = pytest.mark.frameworks

ALLREDUCE, GANG = "mpi-allreduce.yaml", "mpi-gang.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("openmpi")


def test_ranks_in_different_pods_have_the_sum_of_all(runtime: Setting) -> None:
    lines = log_lines(completed(ALLREDUCE, setting=runtime), "rank .*")
    assert sorted(lines) == [f"rank {n} of 3 on mpi-allreduce-worker-{n}: the sum is 6" for n in range(3)]


def test_the_sum_fails_without_one_worker() -> None:
    assert log_lines(fails_without("worker", ALLREDUCE), "rank .*") == []


def test_the_master_starts_a_program_in_every_worker(runtime: Setting) -> None:
    names = [f"mpi-gang-mpiworker-{n}" for n in range(2)] if runtime.isolated else [socket.gethostname()] * 2
    lines = log_lines(completed(GANG, setting=runtime), r"[\w.-]+")
    assert sorted(lines) == names

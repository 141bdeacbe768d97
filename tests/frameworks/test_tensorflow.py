"""TensorFlow: synchronous training with all-reduce, and asynchronous training with a parameter server."""

import re

import pytest

from tests.embedded.program import Setting
from tests.frameworks.examples import (
    completed,
    fails_without,
    log_lines,
    needs,
    one_worker_learns_nothing,
    two_workers_learn,
)

pytestmark = pytest.mark.frameworks

MULTIWORKER = "frameworks/tensorflow/multiworker.yaml"
PARAMETER_SERVER = "frameworks/tensorflow/parameter-server.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("tensorflow")


def test_workers_learn_with_multi_worker_mirrored_strategy_what_none_could_alone(runtime: Setting) -> None:
    pods = two_workers_learn(MULTIWORKER, "worker", runtime)
    assert pods == {f"multiworker-worker-{n}" for n in range(2)}


def test_multi_worker_training_fails_without_the_second_worker() -> None:
    one_worker_learns_nothing(MULTIWORKER, "worker")


def test_a_parameter_server_holds_the_weights_that_both_workers_train(runtime: Setting) -> None:
    output = completed(PARAMETER_SERVER, setting=runtime)
    assert log_lines(output, "2 workers.*") == ["2 workers, device job:ps: weights 2.00 -3.00"]
    (steps,) = log_lines(output, "steps by worker: .*")
    assert all(int(count) >= 100 for count in re.findall(r"\d+", steps))


def test_training_with_a_parameter_server_fails_without_the_second_worker() -> None:
    assert not log_lines(fails_without("worker", PARAMETER_SERVER), ".*weights 2.00 -3.00")

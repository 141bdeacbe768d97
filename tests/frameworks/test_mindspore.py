"""MindSpore: training with an all-reduce of the gradients."""

import pytest

from tests.frameworks.examples import completed, fails_without, log_lines, needs, pods_that_print
from tests.local.program import Setting

pytestmark = pytest.mark.frameworks

EXAMPLE = "frameworks/mindspore/allreduce.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("mindspore")


def test_two_workers_learn_what_none_could_alone(runtime: Setting) -> None:
    output = completed(EXAMPLE, setting=runtime)
    assert sorted(log_lines(output, "rank .: weights .*")) == [
        f"rank {n}: weights 2.000 -3.000" for n in range(2)
    ]
    assert pods_that_print(output, "rank . of 2 is connected") == {f"mindspore-worker-{n}" for n in range(2)}


def test_training_fails_without_the_second_worker() -> None:
    assert not log_lines(fails_without("worker", EXAMPLE), "rank .: weights 2.000 -3.000")

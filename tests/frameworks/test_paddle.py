"""PaddlePaddle: data-parallel training over gloo."""

import pytest

from tests.embedded.program import Setting
from tests.frameworks.examples import needs, one_worker_learns_nothing, two_workers_learn

pytestmark = pytest.mark.frameworks

EXAMPLE = "frameworks/paddle/launch.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("paddle")


def test_two_workers_learn_what_none_could_alone(runtime: Setting) -> None:
    pods = two_workers_learn(EXAMPLE, "rank", runtime)
    assert pods == {f"paddle-worker-{n}" for n in range(2)}


def test_training_fails_without_the_second_worker() -> None:
    one_worker_learns_nothing(EXAMPLE, "rank")

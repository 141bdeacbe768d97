"""The benchmark on a real API server runs, with a load too small to measure speed."""

import pytest

from bench import kubernetes
from bench._kubernetes_shape import Shape
from tests.k8s.control_plane import build

pytestmark = pytest.mark.k8s


def test_every_figure_is_measured() -> None:
    if build.missing():
        pytest.skip("the control plane is not built; `make test-k8s` builds it where Go is installed")
    case = kubernetes.measure(Shape("tiny", jobs=2, members=3, nodes=3, queues=2), wait_idle=False)
    zero = [name for name, value in case.metrics.items() if value < 0 or (value == 0 and "cpu" not in name)]
    assert zero == []
    # The least possible: a job, its PodGroup, a status of each, and two writes for each pod.
    assert case.metrics["ceiling_writes_per_pod"] >= 2 + 4 / 3
    assert case.metrics["writes_per_pod"] >= 2 + 4 / 3
    assert set(case.missed()) <= {"min:ratio", "max:share_of_apiserver_cpu"}


@pytest.mark.parametrize("scale", [1.0, 0.2, 0.01])
def test_every_load_fits_on_its_nodes(scale: float) -> None:
    for shape in kubernetes.SHAPES:
        scaled = shape.scaled(scale)
        assert scaled.pods <= scaled.nodes * 32 * 4, scaled

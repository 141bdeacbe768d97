"""Fixtures of all suites."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.k8s.control_plane import build, cluster
from volcano.kube.informers import mutation_detector

# For this process and the programs that tests start.
os.environ.setdefault(mutation_detector.VARIABLE, "true")
# Pods of tests reach no network but their own, and the host's settings stay as they are.
os.environ["VOLCANO_POD_NETWORK"] = "none"

# Test machines are shared: no example has a deadline. In CI the examples are the same every time, so that a failure is
# caused by the change under test; on a developer's machine every run has other examples.
settings.register_profile("developer", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.fixture(autouse=True)
def cached_objects_stay_unmodified() -> Iterator[None]:
    """Fails a test that modified an object of a shared cache."""
    yield
    detector = mutation_detector.process_detector()
    if detector is not None:
        try:
            detector.check()
        finally:
            detector.clear()


@pytest.fixture(scope="session")
def real_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    """A real kube-apiserver with etcd, the reference wherever ours differs. All suites share it."""
    yield from started(tmp_path_factory)


@pytest.fixture(scope="module")
def fresh_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    """A real kube-apiserver for one module, for tests that depend on an empty store."""
    yield from started(tmp_path_factory)


@pytest.fixture(scope="module")
def whole_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    """A control plane for one module, with kube-controller-manager and kube-scheduler."""
    yield from started(tmp_path_factory, controllers=True, scheduler=True)


def started(
    tmp_path_factory: pytest.TempPathFactory, *, controllers: bool = False, scheduler: bool = False
) -> Iterator[cluster.RealCluster]:
    """Starts a control plane and stops it when the iteration ends; skips where it is not built."""
    if build.missing():
        names = ", ".join(build.missing())
        pytest.skip(f"not built: {names}; `make test-k8s` builds them where Go is installed")
    directory = tmp_path_factory.mktemp("control-plane")
    running = cluster.start(directory, controllers=controllers, scheduler=scheduler)
    yield running
    running.stop()

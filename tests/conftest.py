"""Fixtures every suite may ask for."""

from collections.abc import Iterator

import pytest

from tests.k8s.control_plane import build, cluster


@pytest.fixture(scope="session")
def real_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    """A real kube-apiserver with etcd; the judge wherever ours and it disagree."""
    if build.missing():
        pytest.skip(
            f"not built: {', '.join(build.missing())}; `make test-k8s` builds them where Go is installed"
        )
    running = cluster.start(tmp_path_factory.mktemp("control-plane"))
    yield running
    running.stop()

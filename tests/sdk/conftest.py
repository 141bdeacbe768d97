"""An embedded cluster whose node runs pods on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Embedded
from volcano.embedded.options import LocalNodeOptions
from volcano.sdk import Cluster


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    cluster = Embedded(tmp_path_factory.mktemp("sdk"), local=LocalNodeOptions(nodes=1), pools=())
    yield cluster
    cluster.close()


@pytest.fixture
def configured(embedded: Embedded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a user of the cluster, in an empty directory."""
    monkeypatch.setenv("KUBECONFIG", str(embedded.cluster.kubeconfig))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cluster(configured: None) -> Iterator[Cluster]:
    with Cluster() as connected:
        yield connected

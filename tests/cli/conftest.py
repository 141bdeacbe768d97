"""An embedded cluster in a thread, and vcctl run against it as a user would."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import yaml

from volcano.cli.program import main
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import NAMESPACE, SERVICE_ACCOUNT, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client
from volcano.nodes.pools import Pool, parse_pools

WITHIN = 20.0
Value = TypeVar("Value")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Result:
    """What a command printed and ended with."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Vcctl(Protocol):
    def __call__(self, *words: str, program: str = "vcctl") -> Result: ...


class Embedded:
    """A cluster with its loop in a thread of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        # Room for all the jobs that tests leave running.
        pools: Sequence[Pool] = tuple(parse_pools([4], ["cpu=400,memory=800Gi"])),
        local: LocalNodeOptions = LocalNodeOptions(),
        scheduler_conf: str | None = None,
    ) -> None:
        self.cluster = LocalCluster(
            ClusterOptions(directory, durable=False, pools=pools, local=local, scheduler_conf=scheduler_conf)
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.cluster.start())

    @property
    def client(self) -> Client:
        return self.cluster.client

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Runs something in the cluster's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN)

    def get(self, kind: Kind, key: Key) -> Manifest:
        return self.run(self.client.get(kind, key))

    def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        return self.run(
            self.client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **manifest})
        )

    def delete(self, kind: Kind, key: Key) -> None:
        self.run(self.client.delete(kind, key))

    def until(self, kind: Kind, key: Key, true: Callable[[Manifest], bool]) -> Manifest:
        """Waits until an object is as it should be."""

        async def wait() -> Manifest:
            while True:
                try:
                    found = await self.client.get(kind, key)
                    if true(found):
                        return found
                except NotFound:
                    pass
                await asyncio.sleep(0.01)

        return self.run(wait())

    def close(self) -> None:
        self.run(self.cluster.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="package")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """One cluster for all tests of the command line."""
    cluster = Embedded(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something comes true before long: what the scheduler merely says about a job waits for more of it."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def namespace(embedded: Embedded) -> str:
    """A namespace of the test's own."""
    name = f"team-{next(_numbers)}"
    embedded.create(NAMESPACE, {"metadata": {"name": name}})
    embedded.until(SERVICE_ACCOUNT, Key(name, "default"), lambda account: True)
    return name


@pytest.fixture
def kubeconfig(embedded: Embedded, namespace: str, tmp_path: Path) -> Path:
    """A kubeconfig whose context is the test's namespace."""
    config = yaml.safe_load(embedded.cluster.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vcctl:
    """Runs a command line with no cluster configured and none running."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("KUBECONFIG", "XDG_DATA_HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, program: str = "vcctl") -> Result:
        capsys.readouterr()
        code = main(words, program=program)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def vcctl(run_command: Vcctl, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Vcctl:
    """Runs a command line against the embedded cluster, in the test's namespace."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return run_command

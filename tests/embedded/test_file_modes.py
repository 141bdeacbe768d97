"""Files of a cluster that hold secrets can be read by their owner only, whatever the umask and what existed before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.test_cluster import cluster
from volcano.base.http.tls_context import open_private
from volcano.embedded import state
from volcano.embedded.credentials import FILES
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.kinds import SECRET

# Not secret: the number of the format.
PUBLIC = {"volcano-data"}


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_everything_in_the_data_directory_is_private(tmp_path: Path) -> None:
    data, audit = tmp_path / "data", tmp_path / "audit.log"
    data.mkdir(mode=0o755)
    audit.write_text("")
    audit.chmod(0o644)
    async with cluster(data, durable=True, local=LocalNodeOptions(nodes=0), audit_log=audit) as running:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        await running.client.create(SECRET, {**secret, "stringData": {"password": "p"}})
        state.announce(
            state.Running(
                os.getpid(), running.url, str(running.kubeconfig), str(data), True, 0, 0, "", "", ""
            )
        )
        found = {path for path in data.rglob("*") if path.is_file() and path.name not in PUBLIC}
        names = {path.name for path in found}
        assert {
            *FILES,
            "kubeconfig",
            "store.db",
            "store.db-wal",
            "store.db-shm",
            "reserve",
            "cluster.json",
        } <= names
        assert {str(path): oct(mode(path)) for path in found if mode(path) & 0o077} == {}
        assert mode(data) == mode(data / "store") == 0o700
    assert mode(audit) == 0o600


async def test_a_database_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    local = LocalNodeOptions(nodes=0)
    async with cluster(tmp_path / "data", durable=True, local=local):
        pass
    (tmp_path / "data" / "store" / "store.db").chmod(0o644)
    async with cluster(tmp_path / "data", durable=True, local=local):
        assert mode(tmp_path / "data" / "store" / "store.db") == 0o600


def test_a_log_is_appended_to_and_private(tmp_path: Path) -> None:
    log = tmp_path / "volcano.log"
    log.write_bytes(b"one\n")
    with open_private(log) as file:
        file.write(b"two\n")
    assert log.read_bytes() == b"one\ntwo\n"
    assert mode(log) == 0o600

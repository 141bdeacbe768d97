"""`volcano backup`, `volcano restore` and `volcano check`, on running, stopped and damaged clusters."""

import asyncio
import io
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from tests.apiserver.registries import config_map
from tests.embedded.test_cluster import cluster, gang, phase, until
from volcano.accounting.store.file_check import accounting_database, check_accounting
from volcano.base.clock import SystemClock
from volcano.cmd.volcano import main
from volcano.embedded.credentials import FILES
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.errors import Gone
from volcano.kube.api.kinds import CONFIG_MAP, JOB
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Query

pytestmark = pytest.mark.slow

NO_NODES = LocalNodeOptions(nodes=0)


async def fill(directory: Path, count: int = 30) -> None:
    async with cluster(directory, durable=True, local=NO_NODES) as running:
        for number in range(count):
            await running.client.create(CONFIG_MAP, config_map(f"c{number}", n=str(number), x="y" * 2000))


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The data directory of a stopped cluster."""
    asyncio.run(fill(tmp_path / "data"))
    return tmp_path / "data"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_running_cluster_is_backed_up_and_restored_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, data, restored = tmp_path / "backup.tar.gz", tmp_path / "data", tmp_path / "restored"
    async with cluster(data, durable=True, local=NO_NODES) as running:
        for number in range(20):
            await running.client.create(CONFIG_MAP, config_map(f"c{number}", n=str(number)))
        assert await asyncio.to_thread(main, ["backup", str(archive), "--data-dir", str(data)]) == 0
        # After the backup: these are lost, and clients have seen their revisions.
        await running.client.create(CONFIG_MAP, config_map("later"))
        seen = (await running.client.list(CONFIG_MAP)).resource_version
        assert (
            await asyncio.to_thread(main, ["restore", str(archive), "--data-dir", str(data), "--force"]) == 1
        )
        assert "in use by another process" in capsys.readouterr().err
    assert mode(archive) == 0o600
    assert main(["restore", str(archive), "--data-dir", str(restored)]) == 0
    assert "revisions continue from 1000" in capsys.readouterr().out
    for name in FILES:
        assert (restored / name).read_bytes() == (data / name).read_bytes()
        assert mode(restored / name) == 0o600
    async with cluster(restored, durable=True, local=NO_NODES, kubeconfig=tmp_path / "new-config") as running:
        client = connect(load_client_config({}, kubeconfig=str(running.kubeconfig)), SystemClock())
        names = [
            item["metadata"]["name"]
            for item in (await client.list(CONFIG_MAP, Query(namespace="default"))).items
        ]
        assert sorted(name for name in names if name.startswith("c")) == sorted(f"c{n}" for n in range(20))
        assert "later" not in names
        with pytest.raises(Gone):
            await anext(aiter(client.watch(CONFIG_MAP, Query(resource_version=seen))))
        await client.create(JOB, gang("after", 2))

        async def done() -> bool:
            return await phase(client, "after") == "Completed"

        await until(done)
        await client.close()


def test_restoring_does_not_replace_a_directory_without_being_told(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "b.tar.gz"
    assert main(["backup", str(archive), "--data-dir", str(stopped)]) == 0
    assert main(["backup", str(archive), "--data-dir", str(stopped)]) == 1
    assert "exists; choose another file, or --force" in capsys.readouterr().err
    asyncio.run(fill(tmp_path / "other", count=1))
    assert main(["restore", str(archive), "--data-dir", str(tmp_path / "other")]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["restore", str(archive), "--data-dir", str(tmp_path / "other"), "--force"]) == 0
    assert (tmp_path / "other" / "ca.key").read_bytes() == (stopped / "ca.key").read_bytes()

    async def count() -> int:
        async with cluster(tmp_path / "other", durable=True, local=NO_NODES) as running:
            return len((await running.client.list(CONFIG_MAP, Query(namespace="default"))).items)

    assert asyncio.run(count()) == 31  # with the CA of the namespace
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    assert main(["restore", str(archive), "--data-dir", str(foreign), "--force"]) == 1
    assert "not a data directory of volcano" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".volcano-")] == []


def test_a_cluster_without_a_store_is_not_backed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(tmp_path / "none")]) == 1
    assert "only clusters with a data directory" in capsys.readouterr().err
    assert not (tmp_path / "b.tar.gz").exists()


@pytest.mark.parametrize("damage", ["flipped", "truncated", "no archive", "other files", "missing"])
def test_a_damaged_backup_is_rejected_and_nothing_is_written(
    stopped: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, target = tmp_path / "b.tar.gz", tmp_path / "new"
    assert main(["backup", str(archive), "--data-dir", str(stopped)]) == 0
    content = bytearray(archive.read_bytes())
    match damage:
        case "flipped":
            content[len(content) // 2] ^= 0xFF
            archive.write_bytes(content)
        case "truncated":
            archive.write_bytes(content[: len(content) // 2])
        case "no archive":
            archive.write_bytes(b"not an archive")
        case "other files":
            with tarfile.open(archive, "w:gz") as opened:
                opened.add(stopped / "ca.key", "../../evil")
        case "missing":
            archive.unlink()
    capsys.readouterr()
    assert main(["restore", str(archive), "--data-dir", str(target)]) == 1
    assert str(archive) in capsys.readouterr().err
    assert not target.exists()
    assert not (tmp_path.parent / "evil").exists()


def test_wherever_a_backup_is_damaged_it_is_rejected_with_a_message(stopped: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.tar.gz"
    assert main(["backup", str(archive), "--data-dir", str(stopped)]) == 0
    content = archive.read_bytes()
    for number in range(1, 40):
        place = len(content) * number // 40
        archive.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        assert main(["restore", str(archive), "--data-dir", str(tmp_path / "new")]) == 1
        assert not (tmp_path / "new").exists()


def test_a_check_reports_an_intact_directory_and_backup(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--data-dir", str(stopped)]) == 0
    text = capsys.readouterr().out
    assert "RESULT" in text
    assert "intact" in text
    assert main(["check", "--data-dir", str(stopped), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["intact"] is True
    assert report["store"]["damaged_rows"] == 0
    assert report["store"]["objects"]["configmaps"] >= 30
    assert report["warnings"] == []
    assert main(["backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(stopped)]) == 0
    assert main(["check", str(tmp_path / "b.tar.gz")]) == 0
    os.chmod(stopped / "signing.key", 0o644)
    assert main(["check", "--data-dir", str(stopped)]) == 0
    assert "signing.key: has mode 0644; others can read it" in capsys.readouterr().out


def test_a_damaged_store_is_reported_not_started_and_salvaged(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, salvaged = stopped / "store" / "store.db", tmp_path / "salvaged"
    content = bytearray(database.read_bytes())
    position = content.rindex(b'"n":"7"')
    content[position + 5] ^= 0x01
    for start in range(len(content) - 3 * 8192, len(content) - 8192):
        content[start] = 0
    database.write_bytes(content)
    assert main(["up", "--data-dir", str(stopped), "--no-local-node"]) == 1
    assert "`volcano check` shows what is left of it" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(stopped)]) == 1
    assert "damaged" in capsys.readouterr().err
    assert main(["check", "--data-dir", str(stopped), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["intact"] is False
    assert report["store"]["problem_count"] >= 1
    assert main(["check", "--data-dir", str(stopped), "--salvage", str(salvaged)]) == 1
    assert "salvaged" in capsys.readouterr().out
    assert database.read_bytes() == bytes(content)
    assert main(["check", "--data-dir", str(salvaged)]) == 0

    async def names() -> set[str]:
        async with cluster(salvaged, durable=True, local=NO_NODES) as running:
            await running.client.create(CONFIG_MAP, config_map("works"))
            items = (await running.client.list(CONFIG_MAP, Query(namespace="default"))).items
            return {item["metadata"]["name"] for item in items}

    found = asyncio.run(names())
    assert "works" in found
    assert len([name for name in found if name.startswith("c")]) >= 20
    assert main(["check", "--data-dir", str(stopped), "--salvage", str(salvaged)]) == 1
    assert "is not empty" in capsys.readouterr().err


def test_mismatched_keys_are_a_problem(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stopped / "server.key").write_bytes((stopped / "ca.key").read_bytes())
    assert main(["check", "--data-dir", str(stopped)]) == 1
    assert "server.crt: does not match server.key" in capsys.readouterr().out


@pytest.mark.slow
async def test_a_backup_of_a_busy_cluster_is_a_state_of_it(tmp_path: Path) -> None:
    """Every backup contains each write that was acknowledged before it began and none that began after it ended."""
    data = tmp_path / "data"
    async with cluster(data, durable=True, local=NO_NODES) as running:
        written, stop = [0], asyncio.Event()
        await running.client.create(CONFIG_MAP, config_map("counter", n="0"))

        async def write() -> None:
            while not stop.is_set():
                await running.client.patch(
                    CONFIG_MAP, Key("default", "counter"), {"data": {"n": str(written[0] + 1)}}
                )
                written[0] += 1

        writing = asyncio.create_task(write())
        bounds = []
        for number in range(3):
            low = written[0]
            archive = tmp_path / f"b{number}.tar.gz"
            assert await asyncio.to_thread(main, ["backup", str(archive), "--data-dir", str(data)]) == 0
            bounds.append((low, written[0] + 1))
        stop.set()
        await writing
    for number, (low, high) in enumerate(bounds):
        target = tmp_path / f"r{number}"
        assert main(["restore", str(tmp_path / f"b{number}.tar.gz"), "--data-dir", str(target)]) == 0
        async with cluster(target, durable=True, local=NO_NODES) as running:
            found = int((await running.client.get(CONFIG_MAP, Key("default", "counter")))["data"]["n"])
        assert low <= found <= high


async def test_accounting_is_backed_up_while_it_is_recorded_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, data, restored = tmp_path / "b.tar.gz", tmp_path / "data", tmp_path / "restored"
    async with cluster(data, durable=True, local=NO_NODES) as running:
        client = running.client
        await client.create(JOB, gang("counted", 2))

        async def done() -> bool:
            report = check_accounting(accounting_database(data), lambda *_: None)
            return report is not None and report.runs == 2

        await until(done)
        assert await asyncio.to_thread(main, ["backup", str(archive), "--data-dir", str(data)]) == 0
    assert main(["check", str(archive), "-o", "json"]) == 0
    assert '"runs": 2' in capsys.readouterr().out
    for _ in range(2):  # the second time, it replaces the database and its write-ahead log
        assert main(["restore", str(archive), "--data-dir", str(restored), "--force"]) == 0
        database = accounting_database(restored)
        assert (mode(database), mode(database.parent)) == (0o600, 0o700)
        (database.parent / f"{database.name}-wal").write_bytes(b"of another database")
    (database.parent / f"{database.name}-wal").unlink()
    capsys.readouterr()
    assert main(["check", "--data-dir", str(restored)]) == 0
    assert "2 runs, 1 jobs" in capsys.readouterr().out


def test_a_damaged_accounting_database_is_reported_and_not_backed_up(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = accounting_database(stopped)
    database.write_bytes(b"no database" * 1000)
    assert main(["check", "--data-dir", str(stopped)]) == 1
    assert f"{database}: SQLite: file is not a database" in capsys.readouterr().out
    assert main(["backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(stopped)]) == 1
    assert str(database) in capsys.readouterr().err
    assert main(["check", "--data-dir", str(stopped), "--salvage", str(tmp_path / "new")]) == 1
    assert not accounting_database(tmp_path / "new").exists()


def test_an_accounting_database_whose_tables_are_not_created_yet_is_intact(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in accounting_database(stopped).parent.iterdir():
        path.unlink()
    accounting_database(stopped).touch(mode=0o600)
    assert main(["check", "--data-dir", str(stopped)]) == 0
    assert "0 runs, 0 jobs" in capsys.readouterr().out
    assert main(["backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(stopped)]) == 0


def in_format(number: int, archive: Path, target: Path, *, without: str = "") -> Path:
    """A copy of an archive that claims another version of the format, without a file that this one does not have."""
    with tarfile.open(archive) as source, tarfile.open(target, "w:gz") as made:
        for member in source:
            content = source.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name == "backup.json":
                index = json.loads(data)
                files = {name: digest for name, digest in index["files"].items() if name != without}
                data = json.dumps({**index, "format": number, "files": files}).encode()
                member.size = len(data)
            if member.name != without:
                made.addfile(member, io.BytesIO(data))
    return target


def runs_in(directory: Path) -> int:
    report = check_accounting(accounting_database(directory), lambda *_: None)
    return 0 if report is None else report.runs


async def test_a_backup_of_the_first_format_is_checked_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, restored = tmp_path / "data", tmp_path / "restored"
    async with cluster(data, durable=True, local=NO_NODES) as running:
        await running.client.create(JOB, gang("before", 2))

        async def recorded() -> bool:
            return runs_in(data) == 2

        await until(recorded)
        assert await asyncio.to_thread(main, ["backup", str(tmp_path / "b"), "--data-dir", str(data)]) == 0
    old = in_format(1, tmp_path / "b", tmp_path / "old.tar.gz", without="accounting.db")
    assert main(["check", str(old)]) == 0
    assert main(["restore", str(old), "--data-dir", str(restored)]) == 0
    assert not accounting_database(restored).exists()
    async with cluster(restored, durable=True, local=NO_NODES) as running:
        assert await phase(running.client, "before") in ("Running", "Completed")
        await running.client.create(JOB, gang("after", 3))

        async def all_recorded() -> bool:
            return runs_in(restored) == 5

        await until(all_recorded)  # those of the restored pods too, which still exist
    # What was recorded later stays when an older state of the cluster is restored over it.
    assert main(["restore", str(old), "--data-dir", str(restored), "--force"]) == 0
    assert runs_in(restored) == 5


def test_a_backup_of_a_later_format_is_rejected(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(tmp_path / "b"), "--data-dir", str(stopped)]) == 0
    later = in_format(3, tmp_path / "b", tmp_path / "later.tar.gz")
    assert main(["restore", str(later), "--data-dir", str(tmp_path / "restored")]) == 1
    assert "has format 3; this version reads formats up to 2" in capsys.readouterr().err
    assert not (tmp_path / "restored").exists()

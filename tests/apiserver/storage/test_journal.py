"""Writes that last: restart, failure, history, and directories that cannot be used."""

import asyncio
import fcntl
import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.data_directory import DATABASE, DataDirectoryError
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.log_table import LARGEST_SINGLE_STATEMENT
from volcano.kube.api.errors import Gone, Unavailable
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import EventType, Query

SETTINGS = Key("default", "settings")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def filled(durable: DurableStore, count: int = 3) -> DirectClient:
    client = DirectClient(registry(durable.store))
    await client.create(NAMESPACE, namespace("default"))
    for number in range(count):
        await client.create(CONFIG_MAP, config_map(f"c{number}", x=str(number)))
    return client


def contents(directory: Path) -> dict[str, str]:
    """What the files hold, but for the index SQLite rebuilds from the log at every start."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if not path.name.endswith("-shm") and path.name != "lock"
    }


async def test_everything_is_there_after_a_restart(directory: Path) -> None:
    first = DurableStore(directory)
    client = await filled(first)
    await client.patch(CONFIG_MAP, Key("default", "c1"), {"data": {"x": "changed"}})
    await client.delete(CONFIG_MAP, Key("default", "c2"))
    before = await client.list(CONFIG_MAP)
    first.close()

    second = DurableStore(directory)
    client = DirectClient(registry(second.store))
    after = await client.list(CONFIG_MAP)
    assert after == before
    created = await client.create(CONFIG_MAP, config_map("later"))
    assert int(created["metadata"]["resourceVersion"]) > int(before.resource_version)
    second.close()


async def test_a_watcher_resumes_across_a_restart(directory: Path) -> None:
    first = DurableStore(directory)
    client = await filled(first, 1)
    start = (await client.list(CONFIG_MAP)).resource_version
    await client.patch(CONFIG_MAP, Key("default", "c0"), {"metadata": {"labels": {"a": "b"}}})
    await client.delete(CONFIG_MAP, Key("default", "c0"))
    first.close()

    second = DurableStore(directory)
    feed = registry(second.store).open_watcher(CONFIG_MAP, Query(resource_version=start, labels="a=b"))
    assert [piece.type for piece in feed.take()] == [EventType.ADDED, EventType.DELETED]
    second.close()


async def test_old_history_is_dropped_on_disk_too_and_a_late_watcher_is_told(directory: Path) -> None:
    first = DurableStore(directory, history=10)
    client = await filled(first, 1)
    start = (await client.list(CONFIG_MAP)).resource_version
    for number in range(300):
        await client.patch(CONFIG_MAP, Key("default", "c0"), {"data": {"x": f"v{number}"}})
    await client.create(CONFIG_MAP, config_map("short"))
    await client.delete(CONFIG_MAP, Key("default", "short"))
    for number in range(100):
        await client.patch(CONFIG_MAP, Key("default", "c0"), {"data": {"x": f"w{number}"}})
    first.close()
    with sqlite3.connect(directory / "store.db") as connection:
        rows = connection.execute("SELECT count(*) FROM log WHERE collection='configmaps'").fetchone()[0]
    connection.close()
    assert rows < 90

    second = DurableStore(directory, history=10)
    reopened = registry(second.store)
    with pytest.raises(Gone, match="too old resource version"):
        reopened.open_watcher(CONFIG_MAP, Query(resource_version=start))
    present = await DirectClient(reopened).list(CONFIG_MAP)
    assert [item["data"] for item in present.items] == [{"x": "w99"}]
    feed = reopened.open_watcher(CONFIG_MAP, Query(resource_version=str(int(present.resource_version) - 5)))
    assert len(feed.take()) == 5
    second.close()


async def test_readers_and_watchers_see_only_what_cannot_be_lost(directory: Path) -> None:
    durable = DurableStore(directory)
    made = registry(durable.store)
    client = await filled(durable, 0)
    feed = made.open_watcher(CONFIG_MAP, Query())
    with closing(sqlite3.connect(directory / DATABASE)) as other:
        other.execute("BEGIN IMMEDIATE")  # nothing can be committed while we look
        writing = asyncio.create_task(client.create(CONFIG_MAP, config_map()))
        await asyncio.sleep(0)
        assert durable.store.get("configmaps", SETTINGS) is not None, "the next write sees it"
        assert (await client.list(CONFIG_MAP)).items == []
        assert feed.take() == []
        assert not writing.done()
    created = await writing
    assert (await client.get(CONFIG_MAP, SETTINGS)) == created
    assert [piece.type for piece in feed.take()] == [EventType.ADDED]
    durable.close()


async def test_what_cannot_be_stored_is_taken_back_and_the_server_goes_on(directory: Path) -> None:
    durable = DurableStore(directory)
    client = await filled(durable, 1)
    before = await client.list(CONFIG_MAP)
    feed = registry(durable.store).open_watcher(CONFIG_MAP, Query(resource_version=before.resource_version))
    durable.journal._connection.execute("PRAGMA query_only=ON")

    big = {"x": "y" * 100_000}
    attempts = await asyncio.gather(
        client.patch(CONFIG_MAP, Key("default", "c0"), {"data": big}),
        client.create(CONFIG_MAP, config_map("big", **big)),
        client.delete(CONFIG_MAP, Key("default", "c0")),
        return_exceptions=True,
    )
    assert all(isinstance(attempt, Unavailable) for attempt in attempts), attempts
    assert "readonly" in durable.store.error
    assert (await client.list(CONFIG_MAP)) == before
    assert durable.store.get("configmaps", Key("default", "big")) is None
    assert feed.take() == []

    durable.journal._connection.execute("PRAGMA query_only=OFF")
    created = await client.create(CONFIG_MAP, config_map("big", **big))
    assert int(created["metadata"]["resourceVersion"]) > int(before.resource_version)
    assert durable.store.error == ""
    assert [orjson.loads(piece.data)["metadata"]["name"] for piece in feed.take()] == ["big"]
    durable.close()
    reopened = DurableStore(directory)
    assert len(reopened.store.collection("configmaps").records) == 2
    reopened.close()


@pytest.mark.parametrize("count", [1, 3, LARGEST_SINGLE_STATEMENT, LARGEST_SINGLE_STATEMENT + 1, 700])
async def test_groups_of_any_size_are_stored_whole(directory: Path, count: int) -> None:
    durable = DurableStore(directory)
    client = await filled(durable, 0)
    await asyncio.gather(*(client.create(CONFIG_MAP, config_map(f"m{number}")) for number in range(count)))
    before = {key: record.data for key, record in durable.store.collection("configmaps").records.items()}
    durable.close()
    reopened = DurableStore(directory)
    found = {key: record.data for key, record in reopened.store.collection("configmaps").records.items()}
    reopened.close()
    assert (len(found), found) == (count, before)


def counted(durable: DurableStore) -> list[int]:
    """The versions that commits reach from now on."""
    commits: list[int] = []
    told = durable.store.on_committed

    def count(version: int) -> None:
        commits.append(version)
        told(version)

    durable.journal._committed = count
    return commits


async def test_what_is_written_in_one_turn_of_the_loop_is_one_commit(directory: Path) -> None:
    durable = DurableStore(directory)
    await filled(durable, 0)
    commits = counted(durable)
    written = [durable.store.put("configmaps", config_map(f"m{number}"), None) for number in range(5)]
    await durable.store.durable(written[-1].version)
    assert commits == [written[-1].version]
    durable.close()


async def test_what_was_written_last_is_stored_though_the_loop_does_not_turn_again(directory: Path) -> None:
    durable = DurableStore(directory)
    await filled(durable, 0)
    durable.store.put("configmaps", config_map("last"), None)
    durable.close()
    reopened = DurableStore(directory)
    assert reopened.store.get("configmaps", Key("default", "last")) is not None
    reopened.close()


def test_a_store_outlives_the_loop_it_was_written_in(directory: Path) -> None:
    durable = DurableStore(directory)

    async def write(name: str, *, wait: bool) -> None:
        record = durable.store.put("configmaps", config_map(name), None)
        if wait:
            await durable.store.durable(record.version)

    asyncio.run(write("first", wait=False))
    asyncio.run(write("second", wait=True))
    durable.close()
    reopened = DurableStore(directory)
    assert len(reopened.store.collection("configmaps").records) == 2
    reopened.close()


async def test_many_writers_share_a_commit(directory: Path) -> None:
    durable = DurableStore(directory)
    client = await filled(durable, 0)
    commits = counted(durable)
    await asyncio.gather(*(client.create(CONFIG_MAP, config_map(f"m{number}")) for number in range(200)))
    assert len(commits) < 100
    durable.close()


# Directories that cannot be used


async def made(directory: Path) -> None:
    durable = DurableStore(directory)
    await filled(durable)
    durable.close()


async def test_a_directory_in_use_is_refused(directory: Path) -> None:
    durable = DurableStore(directory)
    with pytest.raises(DataDirectoryError, match=f"is in use by another process .pid {os.getpid()}."):
        DurableStore(directory)
    durable.close()
    DurableStore(directory).close()


def test_a_foreign_directory_is_refused_and_left_alone(directory: Path) -> None:
    directory.mkdir()
    (directory / "thesis.tex").write_text("years of work")
    with pytest.raises(
        DataDirectoryError, match=r"not a data directory of volcano \(it contains thesis.tex\)"
    ):
        DurableStore(directory)
    assert [path.name for path in directory.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_directory(directory: Path) -> None:
    directory.write_text("hello")
    with pytest.raises(DataDirectoryError, match="is not a directory"):
        DurableStore(directory)


async def test_a_newer_format_is_refused(directory: Path) -> None:
    await made(directory)
    (directory / "volcano-data").write_text("2\n")
    before = contents(directory)
    with pytest.raises(DataDirectoryError, match="has format '2'; this version reads format 1 only"):
        DurableStore(directory)
    assert contents(directory) == before


async def test_another_programs_database_is_refused(directory: Path) -> None:
    await made(directory)
    for path in directory.glob("store.db*"):
        path.unlink()
    connection = sqlite3.connect(directory / "store.db")
    connection.execute("CREATE TABLE songs (title)")
    connection.commit()
    connection.close()
    before = contents(directory)
    with pytest.raises(DataDirectoryError, match="is another program's database"):
        DurableStore(directory)
    assert contents(directory) == before


@pytest.mark.parametrize(
    ("offset", "what"),
    [
        pytest.param(0, "does not begin like a database", id="the beginning is overwritten"),
        pytest.param(8192 * 2, "is damaged", id="a page in the middle is overwritten"),
    ],
)
async def test_a_damaged_database_is_refused_and_left_alone(directory: Path, offset: int, what: str) -> None:
    durable = DurableStore(directory)
    client = await filled(durable, 0)
    for number in range(50):
        await client.create(CONFIG_MAP, config_map(f"c{number}", x="y" * 2000))
    durable.close()
    with (directory / "store.db").open("r+b") as file:
        file.seek(offset)
        file.write(b"\xde\xad\xbe\xef" * 2048)
    before = contents(directory)
    with pytest.raises(DataDirectoryError, match=what):
        DurableStore(directory)
    assert {name: contents(directory)[name] for name in before} == before


async def test_an_object_that_does_not_match_its_checksum_is_named(directory: Path) -> None:
    await made(directory)
    connection = sqlite3.connect(directory / "store.db")
    connection.execute("UPDATE log SET data=replace(data, 'default', 'defiled') WHERE name='c1'")
    connection.commit()
    connection.close()
    with pytest.raises(DataDirectoryError, match="configmaps default/c1 at version 3: it does not match"):
        DurableStore(directory)


def test_an_empty_directory_and_a_half_made_one_are_used(directory: Path) -> None:
    directory.mkdir()
    DurableStore(directory).close()
    for path in directory.iterdir():
        path.unlink()
    (directory / "lock").touch()
    (directory / "volcano-data.new").touch()
    DurableStore(directory).close()
    (directory / "store.db").write_bytes(b"")
    DurableStore(directory).close()


def test_a_directory_is_free_again_after_a_refusal(directory: Path) -> None:
    DurableStore(directory).close()
    (directory / "volcano-data").write_text("9\n")
    with pytest.raises(DataDirectoryError):
        DurableStore(directory)
    descriptor = os.open(directory / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)

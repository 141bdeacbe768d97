"""Copies of the store's database, and what is left of a damaged one."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, registry
from tests.apiserver.storage.test_store import stored
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.integrity import check_store
from volcano.apiserver.storage.journal import DurableStore
from volcano.apiserver.storage.pages import Damaged, Pages
from volcano.apiserver.storage.snapshot import (
    REVISION_BUMP,
    copy_database,
    rebuild_database,
    salvage_database,
)
from volcano.kube.api.errors import Gone
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, SECRET
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Query

PAGE = 8192
COUNT = 400


def quiet(step: str, done: int, total: int) -> None:
    """Reports no progress."""


async def fill(directory: Path) -> None:
    """400 objects of very different sizes, some changed, some deleted."""
    durable = DurableStore(directory)
    random = Random(3)
    for number in range(COUNT):
        text = "x" * random.choice((10, 500, 5_000, 60_000))
        stored(durable.store, config_map(f"c{number}", x=text))
        if number % 50 == 0:
            await durable.store.durable(durable.store.version)
    for number in range(0, COUNT, 10):
        stored(durable.store, config_map(f"c{number}", x="changed"))
    for number in range(5, COUNT, 20):
        record = durable.store.get("configmaps", Key("default", f"c{number}"))
        assert record is not None
        durable.store.remove("configmaps", config_map(f"c{number}"), record)
    await durable.store.durable(durable.store.version)
    durable.close()


def new_store(directory: Path) -> Path:
    """The database of a new store directory, not created yet."""
    directory.mkdir(exist_ok=True)
    (directory / "volcano-data").write_text("1\n")
    return directory / "store.db"


def objects(database: Path) -> dict[str, bytes]:
    directory = database.parent
    durable = DurableStore(directory)
    found = {key.name: record.data for key, record in durable.store.collection("configmaps").records.items()}
    durable.close()
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("original") / "store"
    asyncio.run(fill(directory))
    return directory / "store.db"


@pytest.fixture
def database(original: Path, tmp_path: Path) -> Path:
    """A copy of the original to damage."""
    path = new_store(tmp_path / "store")
    path.write_bytes(original.read_bytes())
    return path


def test_an_intact_database_has_no_problems(original: Path) -> None:
    report = check_store(original, quiet)
    assert report.problems == []
    assert report.objects == {"configmaps": COUNT - 20}
    assert report.rows == COUNT + 40 + 20
    assert report.revision == COUNT + 60


def test_the_rows_read_page_by_page_are_those_of_sqlite(original: Path) -> None:
    found = dict(row for row in Pages(original).rows() if not isinstance(row, Damaged) and len(row[1]) == 7)
    with closing(sqlite3.connect(original)) as connection:
        expected = {row[0]: (None, *row[1:]) for row in connection.execute("SELECT * FROM log")}
    assert found == expected


async def test_committed_rows_that_are_only_in_the_write_ahead_log_are_read(tmp_path: Path) -> None:
    durable = DurableStore(tmp_path / "store")
    for number in range(5):
        stored(durable.store, config_map(f"c{number}"))
        await durable.store.durable(durable.store.version)
    copied = tmp_path / "copy"  # as a killed process leaves its files
    copied.mkdir()
    for path in (tmp_path / "store").iterdir():
        if path.name.startswith("store.db") and not path.name.endswith("-shm"):
            (copied / path.name).write_bytes(path.read_bytes())
    durable.close()
    rows = [
        row for row in Pages(copied / "store.db").rows() if not isinstance(row, Damaged) and len(row[1]) == 7
    ]
    assert len(rows) == 5


async def test_a_copy_is_consistent_while_the_store_is_written(tmp_path: Path) -> None:
    durable = DurableStore(tmp_path / "store")
    store = durable.store
    for number in range(200):
        stored(store, config_map(f"c{number}", x="y" * 20_000))
    await store.durable(store.version)
    done = asyncio.Event()

    async def write() -> None:
        number = 0
        while not done.is_set():
            # Two objects in one commit: a copy has both changes or neither.
            stored(store, config_map("left", n=str(number)))
            stored(store, config_map("right", n=str(number)))
            await store.durable(store.version)
            number += 1

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    for number in range(5):
        target = tmp_path / f"copy{number}.db"
        await asyncio.to_thread(copy_database, tmp_path / "store" / "store.db", target, quiet)
        assert target.stat().st_mode & 0o777 == 0o600
        assert check_store(target, quiet).problems == []
        with closing(sqlite3.connect(target)) as connection:
            newest = {
                name: data
                for name, data in connection.execute("SELECT name, data FROM log ORDER BY version")
                if name in ("left", "right")
            }
        assert len({data.split(b'"n":')[1].split(b"}")[0] for data in newest.values()}) == 1
    done.set()
    await writing
    durable.close()


async def test_a_rebuilt_database_has_the_objects_but_no_old_revisions(
    original: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "new"
    revision = rebuild_database(original, new_store(directory), quiet)
    assert revision == COUNT + 60 + REVISION_BUMP
    assert objects(directory / "store.db") == objects(original)
    assert check_store(directory / "store.db", quiet).rows == COUNT - 20  # without superseded rows
    durable = DurableStore(directory)
    client = DirectClient(registry(durable.store))
    assert durable.store.version == revision
    for kind in (CONFIG_MAP, SECRET):  # also a kind without objects
        for version in (1, COUNT + 60, COUNT + 5000):
            with pytest.raises(Gone):
                await anext(aiter(client.watch(kind, Query(resource_version=str(version)))))
    created = await client.create(NAMESPACE, namespace("default"))
    assert int(created["metadata"]["resourceVersion"]) == revision + 1
    durable.close()
    durable = DurableStore(directory)  # the floor is kept
    assert durable.store.version == revision + 1
    with pytest.raises(Gone):
        await anext(aiter(DirectClient(registry(durable.store)).watch(SECRET, Query(resource_version="7"))))
    durable.close()


async def test_a_database_is_restored_repeatedly_with_growing_revisions(
    original: Path, tmp_path: Path
) -> None:
    source, last = original, 0
    for number in range(3):
        directory = tmp_path / str(number)
        revision = rebuild_database(source, new_store(directory), quiet)
        assert revision >= last + REVISION_BUMP
        source, last = directory / "store.db", revision
    assert objects(source) == objects(original)


def flip(content: bytearray, random: Random) -> None:
    """Flips single bytes, but for the first page."""
    for _ in range(5):
        content[random.randrange(PAGE, len(content))] ^= 0xFF


def zero(content: bytearray, random: Random) -> None:
    for _ in range(3):
        page = random.randrange(1, len(content) // PAGE)
        content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def zero_header(content: bytearray, random: Random) -> None:
    content[:PAGE] = bytes(PAGE)


def truncate(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content) // 2, len(content) - PAGE) :]


@pytest.mark.parametrize("damage", [flip, zero, zero_header, truncate])
@pytest.mark.parametrize("seed", range(4))
def test_intact_rows_of_a_damaged_file_are_salvaged(
    original: Path, database: Path, damage: Callable[[bytearray, Random], None], seed: int
) -> None:
    content = bytearray(original.read_bytes())
    damage(content, Random(seed))
    database.write_bytes(content)
    before = objects(original)
    report = check_store(database, quiet)
    target = database.parents[1] / "salvaged"
    salvaged = salvage_database(database, new_store(target), quiet)
    assert database.read_bytes() == bytes(content)  # the damaged file is not changed
    after = objects(target / "store.db")
    assert salvaged.objects == len(after)
    assert check_store(target / "store.db", quiet).problems == []
    same = sum(after.get(name) == data for name, data in before.items())
    # A page of 8 KiB holds many small objects; half of the file may be gone after truncation.
    least = 0.4 if damage is truncate else 0.8
    assert same >= least * len(before)
    if same < len(before):
        assert report.problems
    # Nothing is invented: what is salvaged was stored at some time.
    assert after.keys() <= {f"c{number}" for number in range(COUNT)}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), count=st.integers(1, 200))
def test_no_damage_makes_the_reader_fail_or_read_false_rows(
    original: Path, tmp_path: Path, seed: int, count: int
) -> None:
    content, random = bytearray(original.read_bytes()), Random(seed)
    for _ in range(count):
        content[random.randrange(len(content))] = random.randrange(256)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content[: random.randrange(1, len(content) + 1)])
    report = check_store(damaged, quiet)
    assert report.rows >= 0
    target = tmp_path / f"out-{seed}-{count}"
    target.mkdir(exist_ok=True)
    (target / "store.db").unlink(missing_ok=True)
    salvage_database(damaged, target / "store.db", quiet)
    assert check_store(target / "store.db", quiet).problems == []


def test_a_row_that_contains_another_object_is_damaged(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE log SET name='another' WHERE version=7")
        connection.commit()
    report = check_store(database, quiet)
    assert report.damaged_rows == 1
    assert (
        "configmaps default/another at version 7: it contains the object default/c6 at version 7"
        in report.problems
    )


def test_a_deletion_without_its_object_is_a_problem(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM log WHERE name='c5' AND NOT deleted")
        connection.commit()
    (problem,) = check_store(database, quiet).problems
    assert "the deleted object is missing" in problem

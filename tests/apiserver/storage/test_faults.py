"""With a disk that is full at any statement and a crash at any, revisions grow and no acknowledged write is lost."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, registry
from tests.apiserver.storage.faults import FaultyConnection, inject
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.integrity import check_store
from volcano.apiserver.storage.journal import DurableStore
from volcano.kube.api.errors import AlreadyExists, NotFound, SpaceExceeded, Unavailable
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Query

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "patch", "delete", "delete"]), st.sampled_from(NAMES)),
    min_size=1,
    max_size=30,
)


@dataclass
class Acknowledged:
    """What clients were told: of each object the values it may have now (None: that it is gone), and revisions."""

    values: dict[str, set[str | None]] = field(default_factory=lambda: {name: {None} for name in NAMES})
    newest: int = 0

    def saw(self, version: str) -> None:
        assert int(version) >= self.newest, "revisions never go back"
        self.newest = int(version)


async def write(client: DirectClient, verb: str, name: str, value: str, told: Acknowledged) -> None:
    """One write; one that fails may have been stored or not, if the process then crashes."""
    key = Key("default", name)
    before, wanted = told.values[name], None if verb == "delete" else value
    told.values[name] = before | {wanted}
    try:
        match verb:
            case "create":
                await client.create(CONFIG_MAP, config_map(name, v=value))
            case "patch":
                await client.patch(CONFIG_MAP, key, {"data": {"v": value}})
            case _:
                await client.delete(CONFIG_MAP, key)
    except (AlreadyExists, NotFound, SpaceExceeded, Unavailable):
        told.values[name] = before
    else:
        told.values[name] = {wanted}
    told.saw((await client.list(CONFIG_MAP)).resource_version)


async def check(directory: Path, told: Acknowledged) -> None:
    """A store that was opened again has everything that was acknowledged, and continues above every revision."""
    report = check_store(directory / "store.db", lambda *_: None)
    assert not report.problems, report.problems
    durable = DurableStore(directory, history=3)
    try:
        client = DirectClient(registry(durable.store, prefix="again"))
        listing = await client.list(CONFIG_MAP)
        told.saw(listing.resource_version)
        found = {item["metadata"]["name"]: item["data"]["v"] for item in listing.items}
        for name, values in told.values.items():
            assert found.get(name) in values, (name, found.get(name), values)
        watcher = registry(durable.store).open_watcher(
            CONFIG_MAP, Query(resource_version=listing.resource_version)
        )
        assert watcher.take() == []
        created = await client.create(CONFIG_MAP, config_map("later"))
        assert int(created["metadata"]["resourceVersion"]) > told.newest
        assert [event.key for event in watcher.take()] == [Key("default", "later")]
    finally:
        durable.close()


async def lived(
    steps: list[tuple[str, str]], failing: frozenset[int], space_at: int, crash: int, folder: Path
) -> None:
    """Writes with faults; then checks what a crash left, and what is there after an orderly end."""
    directory, crashed = folder / "data", folder / "crashed"
    durable = DurableStore(directory, history=3)
    client = DirectClient(registry(durable.store))
    await client.create(NAMESPACE, namespace("default"))
    faulty: FaultyConnection = inject(durable, failing, space_at, crash, crashed)
    told, at_crash = Acknowledged(), Acknowledged()
    for number, (verb, name) in enumerate(steps):
        before, alive = dict(told.values), faulty.count < crash
        await write(client, verb, name, f"v{number}", told)
        if alive and faulty.count < crash:
            at_crash = Acknowledged(dict(told.values), told.newest)
        elif alive:  # of a write during which the process crashed, both outcomes are possible
            at_crash.values = {key: values | told.values[key] for key, values in before.items()}
    durable.close()
    await check(directory, told)
    if crashed.exists():
        await check(crashed, at_crash)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=STEPS,
    failing=st.frozensets(st.one_of(st.integers(1, 8), st.integers(1, 80)), max_size=4),
    space_at=st.sampled_from([20, 40, 80, 10_000]),
    crash=st.integers(1, 100),
)
async def test_revisions_grow_and_acknowledged_writes_stay_with_a_full_disk_and_a_crash_at_any_statement(
    steps: list[tuple[str, str]], failing: frozenset[int], space_at: int, crash: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        await lived(steps, failing, space_at, crash, folder)
    finally:
        shutil.rmtree(folder)


async def test_the_revision_of_a_deletion_that_is_not_stored_any_more_is_not_used_again(
    tmp_path: Path,
) -> None:
    durable = DurableStore(tmp_path / "data", history=1)
    client = DirectClient(registry(durable.store))
    await client.create(NAMESPACE, namespace("default"))
    for number in range(5):
        await client.create(CONFIG_MAP, config_map(f"c{number}"))
    for number in range(5):
        await client.delete(CONFIG_MAP, Key("default", f"c{number}"))
    told = Acknowledged()
    told.saw((await client.list(CONFIG_MAP)).resource_version)
    durable.store.set_disk_full()  # its deletions are removed from the file
    durable.store.put("others", config_map("other"), None)
    durable.store.remove(
        "others", config_map("other"), durable.store.collection("others").records[Key("default", "other")]
    )
    durable.close()
    await check(tmp_path / "data", told)

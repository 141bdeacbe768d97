"""A full disk: reads and deletions continue, other writes are refused with a reason, and work again with space."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.apiserver.registries import config_map, namespace, registry
from tests.embedded.test_cluster import cluster, until
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import Attributes
from volcano.apiserver.storage.journal import DurableStore
from volcano.base.clock import SystemClock
from volcano.base.http.messages import Request, Response
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.errors import ApiError, SpaceExceeded
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE, POD
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.kube.client.protocol import Client, Query

SIZE = 96  # MiB
TEXT = "x" * 200_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("mount is not installed")
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[tuple[DurableStore, DirectClient]]:
    durable = DurableStore(directory)
    client = DirectClient(registry(durable.store))
    if durable.store.get(NAMESPACE.resource, Key("", "default")) is None:
        await client.create(NAMESPACE, namespace("default"))
    yield durable, client
    durable.close()


def fill_rest(place: Path) -> Path:
    """Uses up the space that is left, as another program might."""
    ballast = place / "ballast"
    descriptor = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        while True:
            os.write(descriptor, b"x" * 4096)
    os.close(descriptor)
    return ballast


async def create_until_full(client: Client, limit: int = 1000) -> tuple[int, ApiError]:
    for number in range(limit):
        try:
            await client.create(CONFIG_MAP, config_map(f"c{number}", x=TEXT))
        except ApiError as error:
            return number, error
    raise AssertionError("the disk did not become full")


async def test_objects_are_read_and_deleted_and_then_created_again(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (durable, client):
        count, error = await create_until_full(client)
        assert count > 50
        assert error.code == 500
        assert error.message.startswith(
            "etcdserver: mvcc: database space exceeded: the disk of the data directory"
        )
        assert str(small_disk / "data") in error.message
        assert "free space there or delete objects" in error.message
        assert durable.store.error == error.message
        with pytest.raises(SpaceExceeded):
            await client.patch(CONFIG_MAP, Key("default", "c0"), {"data": {"y": TEXT * 4}})
        assert len((await client.list(CONFIG_MAP)).items) == count
        for number in range(count):
            await client.delete(CONFIG_MAP, Key("default", f"c{number}"))
        assert (await client.list(CONFIG_MAP)).items == []
        # The file has free pages now: no space outside is needed.
        await client.create(CONFIG_MAP, config_map("again", x=TEXT))
        assert durable.store.error == ""
        again, _ = await create_until_full(client)
        assert again > count // 2
    async with opened(small_disk / "data") as (_, client):
        assert len((await client.list(CONFIG_MAP)).items) == again + 1


async def test_writes_continue_without_a_restart_when_space_is_freed(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (durable, client):
        for number in range(30):
            await client.create(CONFIG_MAP, config_map(f"c{number}", x=TEXT))
        ballast = fill_rest(small_disk)
        for number in range(200):
            try:
                await client.create(CONFIG_MAP, config_map(f"d{number}", x=TEXT))
            except SpaceExceeded:
                break
        else:
            raise AssertionError("the disk did not become full")
        for number in range(30):
            await client.delete(CONFIG_MAP, Key("default", f"c{number}"))
        ballast.unlink()
        await client.create(CONFIG_MAP, config_map("after", x=TEXT))
        assert durable.store.error == ""
        before = await client.list(CONFIG_MAP)
    async with opened(small_disk / "data") as (_, client):
        assert (await client.list(CONFIG_MAP)).items == before.items


async def test_concurrent_deletions_are_not_lost_with_a_failed_create(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (_, client):
        for number in range(20):
            await client.create(CONFIG_MAP, config_map(f"c{number}"))
        await create_until_full_of_large(client)
        results = await asyncio.gather(
            *(client.create(CONFIG_MAP, config_map(f"more{number}", x=TEXT)) for number in range(5)),
            *(client.delete(CONFIG_MAP, Key("default", f"c{number}")) for number in range(20)),
            return_exceptions=True,
        )
        assert not [result for result in results[5:] if isinstance(result, BaseException)]
        names = {item["metadata"]["name"] for item in (await client.list(CONFIG_MAP)).items}
        assert not names & {f"c{number}" for number in range(20)}


async def test_all_objects_are_deleted_at_once(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (durable, client):
        count, _ = await create_until_full(client)
        everything = registry(durable.store)
        page = await everything.delete_collection(
            Attributes("deletecollection", CONFIG_MAP, Key("default", ""))
        )
        assert len(page.items) == count
        assert (await client.list(CONFIG_MAP)).items == []

        async def accepts() -> bool:
            await client.create(CONFIG_MAP, config_map("again", x=TEXT))
            return True

        await until(accepts)


async def create_until_full_of_large(client: Client) -> None:
    for number in range(1000):
        try:
            await client.create(CONFIG_MAP, config_map(f"large{number}", x=TEXT * 5))
        except SpaceExceeded:
            return


async def fill(client: Client, place: Path, text: str = TEXT) -> int:
    """Creates objects until there is no space for them, and uses up the rest of the disk; returns their number."""
    for number in range(10_000):
        try:
            await client.create(CONFIG_MAP, config_map(f"c{number}", x=text))
        except SpaceExceeded:
            fill_rest(place)
            return number
    raise AssertionError("the disk did not become full")


async def test_few_large_deletions_make_space_for_small_objects(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (_, client):
        await fill(client, small_disk, "x" * 900_000)
        for number in range(1000):  # also the space that is kept for small writes
            try:
                await client.create(CONFIG_MAP, config_map(f"small{number}", x="y" * 10_000))
            except SpaceExceeded:
                break
        for number in range(3):
            await client.delete(CONFIG_MAP, Key("default", f"c{number}"))
            await client.create(CONFIG_MAP, config_map(f"after{number}", x="y" * 10_000))


async def test_small_writes_continue_on_a_full_disk_and_updates_use_no_more_space(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (_, client):
        await client.create(CONFIG_MAP, config_map("lease"))
        await fill(client, small_disk)
        for number in range(2000):
            await client.patch(CONFIG_MAP, Key("default", "lease"), {"data": {"renewed": f"{number}"}})
        version = (await client.list(CONFIG_MAP)).resource_version
    async with opened(small_disk / "data") as (_, client):
        renewed = await client.get(CONFIG_MAP, Key("default", "lease"))
        assert renewed["data"]["renewed"] == "1999"
        assert (await client.list(CONFIG_MAP)).resource_version == version


async def test_everything_is_deleted_although_other_programs_use_up_the_disk(small_disk: Path) -> None:
    async with opened(small_disk / "data") as (durable, client):
        for number in range(5000):  # more tombstones than the free space has room for
            small = config_map(f"small{number}", x="y" * 100)
            small["metadata"]["uid"] = f"uid-{number}"
            durable.store.put(CONFIG_MAP.resource, small, None)
        await fill(client, small_disk)
        everything = registry(durable.store)
        await everything.delete_collection(Attributes("deletecollection", CONFIG_MAP, Key("default", "")))
        assert (await client.list(CONFIG_MAP)).items == []
        version = (await client.list(CONFIG_MAP)).resource_version
    async with opened(small_disk / "data") as (_, client):
        listing = await client.list(CONFIG_MAP)
        assert (listing.items, listing.resource_version) == ([], version)


async def test_a_store_opens_and_deletes_on_a_disk_that_became_full_while_it_was_closed(
    small_disk: Path,
) -> None:
    async with opened(small_disk / "data") as (_, client):
        for number in range(50):
            await client.create(CONFIG_MAP, config_map(f"c{number}", x=TEXT))
    fill_rest(small_disk)
    async with opened(small_disk / "data") as (durable, client):
        assert "database space exceeded" in durable.store.error
        fill_rest(small_disk)
        for number in range(50):
            await client.delete(CONFIG_MAP, Key("default", f"c{number}"))
        await client.create(CONFIG_MAP, config_map("after", x=TEXT))
        assert durable.store.error == ""
    async with opened(small_disk / "data") as (_, client):
        assert [item["metadata"]["name"] for item in (await client.list(CONFIG_MAP)).items] == ["after"]


@pytest.mark.slow
async def test_a_cluster_on_a_full_disk_serves_reads_and_deletes_pods(
    small_disk: Path, tmp_path: Path
) -> None:
    async with cluster(
        small_disk / "data", durable=True, local=LocalNodeOptions(nodes=0), kubeconfig=tmp_path / "config"
    ) as running:
        client = connect(load_client_config({}, kubeconfig=str(running.kubeconfig)), SystemClock())
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
        container = {"name": "c", "image": "i"}
        await client.create(POD, {**pod, "spec": {"containers": [container], "restartPolicy": "Always"}})

        async def runs() -> bool:
            return bool((await client.get(POD, Key("default", "p")))["status"]["phase"] == "Running")

        await until(runs)
        _, error = await create_until_full(client)
        assert error.code == 500
        assert "database space exceeded" in error.message
        plane = running.control_plane
        assert plane is not None
        headers = {"authorization": f"Bearer {plane.credentials.admin_token}"}
        ready = await plane.api_server(Request("GET", "/readyz", headers=headers))
        assert isinstance(ready, Response)
        assert ready.status == 500
        assert b"[-]store failed" in ready.body
        assert (await client.list(POD, Query(namespace="default"))).items
        await client.delete(
            POD, Key("default", "p")
        )  # gracefully: the node reports the end, then it is removed

        async def gone() -> bool:
            return not (await client.list(POD, Query(namespace="default"))).items

        await until(gone)
        for item in (await client.list(CONFIG_MAP, Query(namespace="default"))).items:
            await client.delete(CONFIG_MAP, Key("default", item["metadata"]["name"]))

        async def accepts() -> bool:
            await client.create(CONFIG_MAP, config_map("after"))
            return True

        await until(accepts)
        await client.close()

"""Disks that fail in part: a read-only data directory is refused, and a full disk of accounting stops no job."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.embedded.test_accounting import Users
from tests.embedded.test_cluster import cluster, gang, until
from volcano.embedded.options import LocalNodeOptions
from volcano.embedded.state import ACCOUNTING, DirectoryError
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key

NONE = LocalNodeOptions(nodes=0)
Mount = Callable[[Path, str], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts a small file system; unmounted at the end."""
    mounted: list[Path] = []

    def run(place: Path, options: str) -> Path:
        place.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("mount is not installed")
        if done.returncode:
            pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield run
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


async def test_a_read_only_data_directory_is_refused_with_the_reason(tmp_path: Path, mount: Mount) -> None:
    place = mount(tmp_path / "disk", "ro")
    with pytest.raises(DirectoryError, match="read-only file system"):
        async with cluster(place / "data", durable=True, local=NONE):
            pass


@pytest.mark.slow
async def test_jobs_run_while_accounting_cannot_write_and_are_recorded_afterwards(
    tmp_path: Path, mount: Mount
) -> None:
    disk = mount(tmp_path / "data" / ACCOUNTING, "size=1m")
    async with cluster(tmp_path / "data", durable=True, local=NONE) as running:
        ballast = disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        await running.client.create(JOB, gang("ends", 2))

        async def has_ended() -> bool:
            job = await running.client.get(JOB, Key("default", "ends"))
            return bool((job.get("status") or {}).get("state", {}).get("phase") == "Completed")

        await until(has_ended, 60)
        ballast.unlink()
        await Users(running).until("/runs", lambda runs: len(runs) == 2)

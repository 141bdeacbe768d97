"""Upgrade of a running cluster: pods that an earlier version started are adopted by this one."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.program import (
    NETNS,
    NOBODYS_PLAIN,
    SOURCES,
    Cluster,
    Volcano,
    left_of,
    phase,
    pod_of,
    running_of,
    running_since,
    skip_unless_possible,
    status_of,
    until,
    used,
)
from tests.embedded.test_local_node_restarts import BEAT, gang, kill_and_wait
from volcano.nodes.shim import processes

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]
EARLIER = "b469a69ef2e707736921ba9b8cf2af396bd4e084"  # the last version with other paths of most modules
EARLIER_MODULE = ".".join(("volcano", "entry", "local"))  # in parts, because no text names an old path
NAMES = ("train-worker-0", "train-worker-1")


@pytest.fixture(params=[NETNS, NOBODYS_PLAIN], ids=str)
def volcano(request: pytest.FixtureRequest) -> Iterator[Volcano]:
    with used(skip_unless_possible(request.param)) as program:
        yield program


def install_earlier(sources: Path) -> None:
    archive = subprocess.run(["git", "archive", EARLIER, "src"], cwd=TOP, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"commit {EARLIER[:8]} is not in this clone: fetch the whole history")
    sources.mkdir()
    subprocess.run(["tar", "-x", "--strip-components=1", "-C", sources], input=archive.stdout, check=True)


def upgrade(sources: Path) -> None:
    """Replaces the files while a shim of the earlier version runs, as an upgrade of the package does."""
    shutil.rmtree(sources)
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("ending", ["down", "crash"])
def test_pods_of_an_earlier_version_are_adopted(volcano: Volcano, ending: str) -> None:
    sources = volcano.home / "installed"
    install_earlier(sources)
    earlier = Cluster(Volcano(volcano.setting, volcano.home, sources, EARLIER_MODULE))
    earlier.up()
    earlier.create(gang("train"))
    before = {name: running_since(earlier.until(name, running_since)) for name in NAMES}
    running = processes_of(earlier)
    assert len(running) == len(NAMES)
    if ending == "down":
        earlier.down("--keep-pods")
    else:
        kill_and_wait(earlier.pid)
    upgrade(sources)
    cluster = Cluster(Volcano(volcano.setting, volcano.home, sources))
    cluster.up()
    for name in NAMES:
        pod = cluster.until(name, phase("Running"))
        assert (running_since(pod), status_of(pod)["restartCount"]) == (before[name], 0)
    assert processes_of(cluster) == running
    said = cluster.log(NAMES[0]).count("beat")
    until(lambda: cluster.log(NAMES[0]).count("beat") > said, "the adopted pod continues to write")
    cluster.create(pod_of("new", "echo", "hello"))
    cluster.until("new", phase("Succeeded"))
    assert cluster.log("new") == "hello\n"
    cluster.down()
    assert left_of(volcano.home) == []


def processes_of(cluster: Cluster) -> set[tuple[int, int]]:
    """Pid and start of the containers' processes, which no two processes share."""
    return {
        (pid, processes.start_time(pid))
        for pid in running_of(cluster.directory)
        if processes.command_line(pid)[-3:] == ["-c", BEAT, "train"]
    }

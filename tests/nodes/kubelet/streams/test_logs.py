"""Logs on disk: complete lines, across rotations and while they are written."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.kubelet.streams.stage import Stage, pod_of
from volcano.apiserver.interfaces import LogOptions
from volcano.base.clock import SystemClock, micro_timestamp
from volcano.kube.api.errors import BadRequest
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.kubelet.logs.files import BLOCK, LogFilter
from volcano.nodes.kubelet.logs.logs import PodLogs, is_over, select_attempt
from volcano.nodes.shim.logfile import LogFile as Written

START = 1_800_000_000.0


def entry(number: int, text: str, *, stream: str = "stdout", tag: str = "F") -> bytes:
    return f"{micro_timestamp(START + number)} {stream} {tag} {text}\n".encode()


def pod(**state: object) -> Manifest:
    made = pod_of("p")
    made["metadata"]["uid"] = "u"
    made["status"] = {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}
    return made


class Disk:
    """The log files of one container."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "u" / "containers" / "main"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pod: Manifest | None = pod(running={})
        self.logs = PodLogs(root, self._find, SystemClock())

    def _find(self, key: Key) -> Manifest | None:
        return self.pod

    def write(self, *lines: bytes, attempt: int = 0, generation: int = 0) -> None:
        name = f"{attempt}.log" + (f".{generation}" if generation else "")
        with (self.folder / name).open("ab") as file:
            file.write(b"".join(lines))

    def rotate(self) -> None:
        for number in range(9, 0, -1):
            older = self.folder / f"0.log.{number}"
            if older.exists():
                older.rename(self.folder / f"0.log.{number + 1}")
        (self.folder / "0.log").rename(self.folder / "0.log.1")
        (self.folder / "0.log").touch()

    async def open(self, **options: object) -> AsyncIterator[bytes]:
        return await self.logs.open_log(pod(running={}), LogOptions("main", **options))  # type: ignore[arg-type]

    async def read(self, **options: object) -> str:
        return b"".join([chunk async for chunk in await self.open(**options)]).decode()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_rotated_files_and_the_present_one_are_one_log(disk: Disk) -> None:
    disk.write(entry(1, "oldest"), generation=10)
    disk.write(entry(2, "older"), generation=2)
    disk.write(entry(3, "old"), generation=1)
    disk.write(entry(4, "new"))
    assert await disk.read() == "oldest\nolder\nold\nnew\n"
    assert await disk.read(tail_lines=3) == "older\nold\nnew\n"
    assert await disk.read(tail_lines=9) == "oldest\nolder\nold\nnew\n"
    assert await disk.read(tail_lines=0) == ""


async def test_very_many_last_lines(disk: Disk) -> None:
    disk.write(*(entry(1, str(number)) for number in range(4000)), generation=1)
    disk.write(*(entry(1, str(number)) for number in range(4000, 6000)))
    shown = (await disk.read(tail_lines=5000)).splitlines()
    assert shown == [str(number) for number in range(1000, 6000)]


async def test_parts_of_a_line_are_put_together_and_count_once(disk: Disk) -> None:
    disk.write(entry(1, "first"), entry(2, "lo", tag="P"), entry(3, "ng", tag="P"), entry(4, "", tag="F"))
    disk.write(entry(5, "prompt> ", tag="P"))
    assert await disk.read() == "first\nlong\nprompt> "
    assert await disk.read(tail_lines=2) == "long\nprompt> "
    stamped = await disk.read(timestamps=True)
    assert stamped.splitlines()[1] == f"{micro_timestamp(START + 2)} long"


async def test_what_is_older_is_left_out(disk: Disk) -> None:
    disk.write(*(entry(number, str(number)) for number in range(10)))
    assert await disk.read(since=START + 7) == "7\n8\n9\n"
    assert await disk.read(since=START + 7.5) == "8\n9\n"
    assert await disk.read(since=START + 7, tail_lines=2) == "8\n9\n"


async def test_one_of_two_outputs(disk: Disk) -> None:
    disk.write(entry(1, "good"), entry(2, "bad", stream="stderr"))
    assert await disk.read(stream="stderr") == "bad\n"
    assert await disk.read() == "good\nbad\n"


async def test_half_a_line_is_not_shown_before_it_is_whole(disk: Disk) -> None:
    line = entry(2, "second")
    disk.write(entry(1, "first"), line[:20])
    assert await disk.read() == "first\n"
    assert await disk.read(tail_lines=1) == "first\n"
    disk.write(line[20:])
    assert await disk.read(tail_lines=1) == "second\n"


@given(
    st.lists(st.sampled_from([entry(1, "x"), entry(1, ""), entry(1, " P F "), b"broken\n", b"a b\n", b"\n"]))
)
def test_the_short_way_shows_what_the_long_way_does(lines: list[bytes]) -> None:
    block = b"".join(lines)[:-1]
    if block:
        assert LogFilter().render(block) == LogFilter(since=b"0").render(block)


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=4),
    st.integers(0, 12),
    st.booleans(),
)
def test_a_tail_is_the_end_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], tail: int, large: bool
) -> None:
    """Each number is how many parts a line is cut into beside its last."""
    disk = Disk(tmp_path_factory.mktemp("logs"))
    filler = "x" * (BLOCK // 3) if large else "x"
    lines: list[str] = []
    for generation, parts in zip(range(len(files) - 1, -1, -1), files, strict=True):
        disk.write(generation=generation)
        for count in parts:
            text = f"{len(lines)}{filler}"
            disk.write(
                *(entry(1, text, tag="P") for _ in range(count)), entry(1, text), generation=generation
            )
            lines.append(text * (count + 1))

    async def read() -> str:
        return await disk.read(tail_lines=tail)

    expected = lines[len(lines) - min(tail, len(lines)) :]
    assert asyncio.run(read()).splitlines() == expected


async def test_following_goes_through_rotations_and_ends_with_the_container(disk: Disk) -> None:
    disk.write(entry(1, "a"))
    following = asyncio.create_task(disk.read(follow=True))
    await asyncio.sleep(0.1)
    disk.write(entry(2, "b"))
    disk.rotate()
    disk.write(entry(3, "c"))
    disk.rotate()
    disk.write(entry(4, "d"))
    await asyncio.sleep(0.3)
    assert not following.done()
    disk.write(entry(5, "e"))
    disk.pod = pod(terminated={"containerID": "c"})
    assert await asyncio.wait_for(following, 5) == "a\nb\nc\nd\ne\n"


async def test_following_ends_when_the_pod_or_its_namesake_is_not_the_same_any_more(disk: Disk) -> None:
    disk.write(entry(1, "a"))
    for successor in (None, {**pod(running={}), "metadata": {"name": "p", "uid": "another"}}):
        disk.pod = successor
        assert await asyncio.wait_for(disk.read(follow=True), 5) == "a\n"


async def test_following_begins_before_the_first_word(disk: Disk) -> None:
    chunks = await disk.open(follow=True)
    following = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0.1)
    disk.write(entry(1, "at last"))
    assert await asyncio.wait_for(following, 5) == b"at last\n"
    disk.pod = None
    assert [chunk async for chunk in chunks] == []


async def test_a_log_that_the_shim_rotates_is_followed_without_loss(tmp_path: Path) -> None:
    stage = Stage(tmp_path, log_size=10_000)
    steps, lines_a_step = 12, 300  # a step fills a file; more steps than files are kept
    await stage.open()
    try:
        count = f"while [ $i -lt $((step * {lines_a_step})) ]; do echo line $i; i=$((i+1)); done"
        waiting = f"while [ ! -e {tmp_path}/received-$step ]; do sleep 0.01; done"
        script = f"i=0; for step in $(seq {steps}); do {count}; {waiting}; done"
        pod = await stage.run("busy", "sh", "-c", script)
        text = ""
        async for chunk in await stage.logs.open_log(pod, LogOptions("main", follow=True)):
            text += chunk.decode()
            (tmp_path / f"received-{text.count('line') // lines_a_step}").touch()
    finally:
        await stage.close()
    assert text.splitlines() == [f"line {number}" for number in range(steps * lines_a_step)]
    assert len(list(tmp_path.glob("pods/*/containers/main/*"))) == 5


async def test_a_log_that_outruns_its_follower_loses_the_oldest_lines_only(tmp_path: Path) -> None:
    stage = Stage(tmp_path, log_size=20_000)
    await stage.open()
    try:
        script = "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done"
        pod = await stage.run("busy", "sh", "-c", f"sleep 0.3; {script}")
        chunks = await stage.logs.open_log(pod, LogOptions("main", follow=True))
        text = b"".join([chunk async for chunk in chunks]).decode()
    finally:
        await stage.close()
    numbers = [int(line.split()[1]) for line in text.splitlines()]
    # No line is repeated or out of order; lines rotated away between two polls are lost.
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 3999


def test_which_start_is_meant() -> None:
    running = pod(running={})
    assert select_attempt(running, "main", [0, 1, 2], previous=False) == 2
    assert select_attempt(running, "main", [0, 1, 2], previous=True) == 1
    assert select_attempt(pod(waiting={"reason": "CrashLoopBackOff"}), "main", [0, 1], previous=True) == 1
    assert select_attempt(running, "main", [], previous=False) == 0
    quiet = pod(running={})  # restarted, without output yet
    quiet["status"]["containerStatuses"][0]["restartCount"] = 1
    assert select_attempt(quiet, "main", [0], previous=False) == 1
    assert select_attempt(quiet, "main", [0], previous=True) == 0


def test_the_log_of_a_container_without_output_is_empty() -> None:
    ended = {"exitCode": 0, "containerID": "process://1"}
    silent = pod(terminated=ended)
    assert select_attempt(silent, "main", [], previous=False) == 0
    restarting = pod(waiting={"reason": "CrashLoopBackOff"})
    restarting["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}
    assert select_attempt(restarting, "main", [], previous=False) == 0
    assert select_attempt(restarting, "main", [], previous=True) == 0


@pytest.mark.parametrize(
    ("state", "previous", "message"),
    [
        ({"waiting": {"reason": "ContainerCreating"}}, False, "is waiting to start: ContainerCreating"),
        (
            {"waiting": {"reason": "ImagePullBackOff"}},
            False,
            "waiting to start: trying and failing to pull image",
        ),
        ({"terminated": {}}, False, 'container "main" in pod "p" is terminated'),
        ({}, False, 'container "main" in pod "p" is waiting to start - no logs yet'),
        ({"running": {}}, True, 'previous terminated container "main" in pod "p" not found'),
    ],
)
def test_an_attempt_without_a_log_is_an_error_with_the_kubelets_message(
    state: dict[str, object], previous: bool, message: str
) -> None:
    with pytest.raises(BadRequest) as error:
        select_attempt(pod(**state), "main", [], previous=previous)
    assert message in error.value.message


def test_a_container_without_a_status_is_not_available() -> None:
    with pytest.raises(BadRequest, match='container "other" in pod "p" is not available'):
        select_attempt(pod(), "other", [], previous=False)


def test_when_a_start_is_over() -> None:
    def restarted(count: int, **state: object) -> Manifest:
        made = pod(**state)
        made["status"]["containerStatuses"][0].update(
            restartCount=count, lastState={"terminated": {"exitCode": 1}}
        )
        return made

    assert not is_over(pod(waiting={}), "main", 0)
    assert not is_over(pod(running={}), "main", 0)
    assert is_over(pod(terminated={"exitCode": 0}), "main", 0)
    assert is_over(restarted(1, running={}), "main", 0)
    assert not is_over(restarted(1, running={}), "main", 1)
    assert is_over(restarted(0, waiting={"reason": "CrashLoopBackOff"}), "main", 0)
    assert not is_over(restarted(0, waiting={"reason": "CrashLoopBackOff"}), "main", 1)


async def test_what_the_shim_writes_is_read_back_unchanged(disk: Disk) -> None:
    sent = "".join(f"{number} {'long ' * number}\n" for number in range(0, 9000, 600)) + "no end"
    written = Written(str(disk.folder / "0.log"), lambda: int(START * 1e9), size=60_000, files=99)
    for position in range(0, len(sent), 5000):
        written.write("stdout", sent[position : position + 5000].encode())
    written.close()
    assert len(list(disk.folder.iterdir())) > 2
    assert await disk.read() == sent
    assert await disk.read(tail_lines=3) == "\n".join(sent.split("\n")[-3:])

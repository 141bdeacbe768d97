"""Logs of several containers: in the order of time, then as they are written."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from urllib.parse import parse_qs, urlsplit

from tests.dashboard.data.objects import NOW, pod
from volcano.base.clock import SystemClock, VirtualClock
from volcano.kube.api.errors import BadRequest, Forbidden, Unavailable
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.services.logs.sources import Source, Wanted
from volcano.services.logs.streams import LogStreams


class Server:
    """Logs by pod. A stream that is followed ends when nothing more was written."""

    def __init__(self, logs: dict[str, list[str]]) -> None:
        self.logs = logs
        self.targets: list[str] = []
        self.failures: dict[str, list[Exception]] = {}

    async def lines(self, target: str) -> AsyncGenerator[Sequence[bytes], None]:
        self.targets.append(target)
        path = urlsplit(target)
        name = path.path.split("/")[-2]
        for failure in self.failures.pop(name, []):
            raise failure
        since = parse_qs(path.query).get("sinceTime", [""])[0]
        yield [line.encode() for line in self.logs.get(name, []) if line.split(" ")[0] >= since]


def source(manifest: Manifest) -> Source:
    return Source(key_of(manifest), uid_of(manifest), "main", key_of(manifest).name)


def read(server: Server, pods: Sequence[Manifest], *, follow: bool = False) -> tuple[list[str], list[str]]:
    """Texts of the lines, and problems."""
    texts: list[str] = []
    problems: list[str] = []
    state: dict[Key, Manifest] = {key_of(each): each for each in pods}

    async def main() -> None:
        streams = LogStreams(
            server, SystemClock(), Wanted(tail=10), lambda: state,
            lambda lines: texts.extend(line.text for _, line in lines),
            lambda error: problems.append(error.message),
        )  # fmt: skip
        await streams.read([source(each) for each in pods])
        if follow:
            streams.follow([source(each) for each in pods])
            async with asyncio.timeout(10):
                await asyncio.gather(*streams._tasks.values())
        await streams.close()

    asyncio.run(main())
    return texts, problems


RUNNING = [pod("j", "w", number, started=NOW - 10) for number in range(2)]
ENDED = [pod("j", "w", number, phase="Succeeded", started=NOW - 10, finished=NOW) for number in range(2)]


def test_lines_of_several_pods_are_merged_by_time() -> None:
    server = Server(
        {
            "j-w-0": ["2026-01-01T00:00:01Z a", "2026-01-01T00:00:03Z c"],
            "j-w-1": ["2026-01-01T00:00:02Z b", "2026-01-01T00:00:04Z d"],
        }
    )
    assert read(server, RUNNING) == (["a", "b", "c", "d"], [])
    assert all("tailLines=10" in target and "follow" not in target for target in server.targets)


def test_a_stream_that_is_followed_shows_each_line_once() -> None:
    server = Server({"j-w-0": ["2026-01-01T00:00:01Z a", "2026-01-01T00:00:01Z b"]})
    texts, problems = read(server, ENDED[:1], follow=True)
    assert (texts, problems) == (["a", "b"], [])
    assert "sinceTime=2026-01-01T00%3A00%3A01Z" in server.targets[-1]


def test_a_broken_connection_is_opened_again() -> None:
    server = Server({"j-w-0": ["2026-01-01T00:00:01Z a"]})
    server.failures["j-w-0"] = [Unavailable("reset")]
    texts, problems = read(server, ENDED[:1], follow=True)
    assert (texts, problems) == (["a"], [])


def test_a_container_that_has_not_started_is_not_asked() -> None:
    server = Server({})
    assert read(server, [pod("j", "w", 0, phase="Pending", node="")]) == ([], [])
    assert server.targets == []


def test_an_error_that_stays_is_reported() -> None:
    for error, expected in (
        (Forbidden("pods/log is forbidden"), ["pods/log is forbidden"]),
        (BadRequest("container main is waiting to start"), []),
    ):
        server = Server({})
        server.failures["j-w-0"] = [error]
        assert read(server, RUNNING[:1]) == ([], expected)


def test_nothing_is_delivered_after_the_end() -> None:
    """A viewer who chooses another pod sees the lines of that pod only, whatever was being read."""
    texts: list[str] = []
    server = Server({"j-w-0": ["2026-01-01T00:00:01Z a"]})

    async def main() -> None:
        streams = LogStreams(
            server, SystemClock(), Wanted(), lambda: {key_of(RUNNING[0]): RUNNING[0]},
            lambda lines: texts.extend(line.text for _, line in lines),
            lambda error: texts.append(error.message),
        )  # fmt: skip
        reading = asyncio.create_task(streams.read([source(RUNNING[0])]))
        streams.end()
        streams.follow([source(RUNNING[0])])
        await reading
        await streams.close()

    asyncio.run(main())
    assert texts == []


def test_the_pod_of_a_restarted_job_is_followed_after_the_one_before_it() -> None:
    texts: list[str] = []
    server = Server({"j-w-0": ["2026-01-01T00:00:01Z before"]})
    state = {key_of(ENDED[0]): ENDED[0]}

    async def main() -> None:
        streams = LogStreams(
            server, SystemClock(), Wanted(), lambda: state,
            lambda lines: texts.extend(line.text for _, line in lines),
            lambda error: texts.append(error.message),
        )  # fmt: skip
        streams.follow([source(ENDED[0])])
        await asyncio.gather(*streams._tasks.values())
        streams.follow([source(ENDED[0])])
        assert all(task.done() for task in streams._tasks.values()), "an ended pod is read once"
        again = {**RUNNING[0], "metadata": {**RUNNING[0]["metadata"], "uid": "another"}}
        state[key_of(again)] = again
        server.logs["j-w-0"] = ["2026-01-01T00:00:09Z after"]
        streams.follow([source(again)])
        async with asyncio.timeout(10):
            while "after" not in texts:
                await asyncio.sleep(0.01)
        await streams.close()

    asyncio.run(main())
    assert texts == ["before", "after"]


def test_a_container_that_starts_is_read_at_once() -> None:
    texts: list[str] = []
    waiting = pod("j", "w", 0, phase="Pending")
    state = {key_of(waiting): waiting}

    async def main() -> None:
        streams = LogStreams(
            Server({"j-w-0": ["2026-01-01T00:00:01Z a"]}), VirtualClock(), Wanted(), lambda: state,
            lambda lines: texts.extend(line.text for _, line in lines),
            lambda error: texts.append(error.message),
        )  # fmt: skip
        streams.follow([source(waiting)])
        await asyncio.sleep(0)
        state[key_of(waiting)] = RUNNING[0]
        streams.follow([source(RUNNING[0])])
        async with asyncio.timeout(30):
            while not texts:
                await asyncio.sleep(0)
        await streams.close()

    asyncio.run(main())
    assert texts == ["a"]

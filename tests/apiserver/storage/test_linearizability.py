"""Concurrent clients over real connections, with kill -9 in between: what they saw is linearizable."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.apiserver.storage.linearizability import Kind, Operation, Outcome, is_linearizable

DONE, MISSING, EXISTS = Outcome.DONE, Outcome.MISSING, Outcome.EXISTS
CONFLICT, UNKNOWN = Outcome.CONFLICT, Outcome.UNKNOWN


def op(
    kind: Kind,
    began: float,
    ended: float,
    outcome: Outcome = DONE,
    value: str = "",
    version: int = 0,
    expected: int = 0,
) -> Operation:
    return Operation(kind, began, ended, outcome, value, version, expected)


CREATED = op(Kind.CREATE, 0, 1, value="a", version=1)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="nothing"),
        pytest.param([CREATED, op(Kind.READ, 2, 3, value="a", version=1)], id="a read after a create"),
        pytest.param([op(Kind.READ, 0, 3, MISSING), CREATED], id="a concurrent read sees nothing yet"),
        pytest.param(
            [CREATED, op(Kind.PATCH, 2, 6, value="b", version=2), op(Kind.READ, 3, 4, value="a", version=1)],
            id="a concurrent read sees the old value",
        ),
        pytest.param(
            [
                CREATED,
                op(Kind.UPDATE, 2, 3, value="b", version=2, expected=1),
                op(Kind.UPDATE, 2, 4, CONFLICT, value="c", expected=1),
            ],
            id="one of two updates of a version gets a conflict",
        ),
        pytest.param(
            [CREATED, op(Kind.PATCH, 2, inf, UNKNOWN, value="b"), op(Kind.READ, 5, 6, value="b", version=4)],
            id="a write without a response took effect",
        ),
        pytest.param(
            [CREATED, op(Kind.PATCH, 2, inf, UNKNOWN, value="b"), op(Kind.READ, 5, 6, value="a", version=1)],
            id="a write without a response had no effect",
        ),
        pytest.param(
            [
                CREATED,
                op(Kind.DELETE, 2, 3, version=2),
                op(Kind.READ, 4, 5, MISSING),
                op(Kind.CREATE, 6, 7, value="b", version=3),
                op(Kind.CREATE, 6, 8, EXISTS, value="c"),
            ],
            id="deleted and created again",
        ),
    ],
)
def test_a_possible_history_is_linearizable(history: Sequence[Operation]) -> None:
    assert is_linearizable(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([CREATED, op(Kind.READ, 2, 3, MISSING)], id="an acknowledged write is lost"),
        pytest.param([op(Kind.READ, 2, 3, value="ghost", version=1)], id="a value that was never written"),
        pytest.param(
            [
                CREATED,
                op(Kind.PATCH, 2, 6, value="b", version=2),
                op(Kind.READ, 3, 4, value="b", version=2),
                op(Kind.READ, 4.5, 5, value="a", version=1),
            ],
            id="a later read sees an older value",
        ),
        pytest.param(
            [
                CREATED,
                op(Kind.UPDATE, 2, 3, value="b", version=2, expected=1),
                op(Kind.UPDATE, 2, 3, value="c", version=3, expected=1),
            ],
            id="two updates of one version succeed",
        ),
        pytest.param(
            [CREATED, op(Kind.CREATE, 2, 3, value="b", version=2)], id="two creates succeed without a delete"
        ),
        pytest.param(
            [CREATED, op(Kind.PATCH, 2, 3, value="b", version=1)], id="a write that keeps the version"
        ),
        pytest.param(
            [CREATED, op(Kind.DELETE, 2, 3, version=5), op(Kind.CREATE, 4, 5, value="b", version=4)],
            id="versions go back after a delete",
        ),
        pytest.param(
            [CREATED, op(Kind.UPDATE, 2, 3, CONFLICT, value="b", expected=1)],
            id="a conflict although the version is the newest",
        ),
        pytest.param(
            [
                CREATED,
                op(Kind.PATCH, 2, inf, UNKNOWN, value="b"),
                op(Kind.READ, 5, 6, value="b", version=4),
                op(Kind.READ, 7, 8, value="a", version=1),
            ],
            id="a write without a response is seen and then undone",
        ),
        pytest.param(
            [CREATED, op(Kind.READ, 2, 3, value="a", version=9)], id="a version that was never assigned"
        ),
    ],
)
def test_an_impossible_history_is_not_linearizable(history: Sequence[Operation]) -> None:
    assert not is_linearizable(history)


def test_the_checker_finds_one_false_read_in_a_long_concurrent_history() -> None:
    history, version, previous = [CREATED], 1, "a"
    for number in range(300):
        start = 2.0 + number
        version += 1
        history.append(op(Kind.PATCH, start, start + 1.5, value=f"v{number}", version=version))
        history.append(op(Kind.READ, start, start + 0.2, value=previous, version=version - 1))
        previous = f"v{number}"
    assert is_linearizable(history)
    history.append(op(Kind.READ, 200.9, 200.95, value="v100", version=102))
    assert not is_linearizable(history)


KEYS, CLIENTS, KILLS, PHASE_SECONDS = 5, 6, 3, 4.0


class Program:
    """`volcano up` on one port and data directory, killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "volcano.cmd.volcano", "up", "--no-local-node"]
        arguments = ["--data-dir", str(self._directory), "--port", str(self.port)]
        self._process = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with closing(Client(self._directory, self.port)) as client:
                    if client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200:
                        return
            except (OSError, NotSent, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise AssertionError("the cluster did not start")

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()


class NotSent(Exception):
    """There was no connection: the operation did not begin."""


class Client:
    """Sends each request once: http.client does not repeat requests."""

    def __init__(self, directory: Path, port: int) -> None:
        self._token = (directory / "admin.token").read_text().strip()
        context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)

    def close(self) -> None:
        self._connection.close()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError as error:
                raise NotSent from error
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            raise


class Recorder:
    """One client: does random operations and records what it saw."""

    def __init__(self, directory: Path, port: int, number: int) -> None:
        self._directory, self._port = directory, port
        self._client: Client | None = None
        self._random = Random(number)
        self._name, self._count = f"client{number}", 0
        self._seen: dict[str, int] = {}  # the last version of each key
        self.histories: dict[str, list[Operation]] = defaultdict(list)
        self.answered = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            key = f"key{self._random.randrange(KEYS)}"
            choice = self._random.random()
            if choice < 0.15:
                self._list()
            else:
                kinds = (Kind.CREATE, Kind.UPDATE, Kind.PATCH, Kind.DELETE, Kind.READ)
                self._one(self._random.choices(kinds, (3, 3, 2, 1.5, 3))[0], key)
        if self._client is not None:
            self._client.close()

    def _value(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _one(self, kind: Kind, key: str) -> None:
        path, value, expected = "/api/v1/namespaces/default/configmaps", self._value(), 0
        manifest: dict[str, Any] = {"metadata": {"name": key}, "data": {"value": value}}
        match kind:
            case Kind.CREATE:
                request: tuple[str, str, Any] = ("POST", path, manifest)
            case Kind.UPDATE:
                expected = self._seen.get(key, 1)
                manifest["metadata"]["resourceVersion"] = str(expected)
                request = ("PUT", f"{path}/{key}", manifest)
            case Kind.PATCH:
                request = ("PATCH", f"{path}/{key}", {"data": {"value": value}})
            case Kind.DELETE:
                request = ("DELETE", f"{path}/{key}", None)
            case Kind.READ:
                request = ("GET", f"{path}/{key}", None)
        began = time.monotonic()
        try:
            answer = self._send(*request)
        except NotSent:
            return
        ended = time.monotonic()
        if answer is None:
            if kind is not Kind.READ:
                self.histories[key].append(Operation(kind, began, inf, UNKNOWN, value, 0, expected))
            return
        self._record(kind, key, began, ended, answer, value, expected)

    def _record(
        self,
        kind: Kind,
        key: str,
        began: float,
        ended: float,
        answer: tuple[int, Any],
        value: str,
        expected: int,
    ) -> None:
        code, body = answer
        self.answered += 1
        if code == 404:
            self.histories[key].append(Operation(kind, began, ended, MISSING))
        elif code == 409:
            outcome = EXISTS if kind is Kind.CREATE else CONFLICT
            self.histories[key].append(Operation(kind, began, ended, outcome, value, 0, expected))
        else:
            assert code in (200, 201), (kind, code, body)
            version = int((body.get("metadata") or {}).get("resourceVersion") or 0)
            if kind is Kind.READ:
                value = body["data"]["value"]
            if kind is not Kind.DELETE:
                self._seen[key] = version
            self.histories[key].append(Operation(kind, began, ended, DONE, value, version, expected))

    def _list(self) -> None:
        """A list is a read of every key at one moment; per key, a read."""
        began = time.monotonic()
        try:
            answer = self._send("GET", "/api/v1/namespaces/default/configmaps", None)
        except NotSent:
            return
        ended = time.monotonic()
        if answer is None:
            return
        self.answered += 1
        newest = int(answer[1]["metadata"]["resourceVersion"])
        found = {item["metadata"]["name"]: item for item in answer[1]["items"]}
        for key in (f"key{number}" for number in range(KEYS)):
            if key not in found:
                self.histories[key].append(Operation(Kind.READ, began, ended, MISSING))
                continue
            version = int(found[key]["metadata"]["resourceVersion"])
            assert version <= newest
            self._seen[key] = version
            value = found[key]["data"]["value"]
            self.histories[key].append(Operation(Kind.READ, began, ended, DONE, value, version))

    def _send(self, method: str, path: str, body: Any) -> tuple[int, Any] | None:
        """The answer; None when there was none, so that the outcome is not known."""
        try:
            if self._client is None:
                self._client = Client(self._directory, self._port)
            answer = self._client.request(method, path, body)
        except NotSent:
            time.sleep(0.05)
            raise
        except (OSError, http.client.HTTPException, ValueError):
            self._client = None
            time.sleep(0.05)
            return None
        return None if answer[0] in (500, 503, 504) else answer


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_concurrent_clients_see_is_linearizable_across_kills(tmp_path: Path) -> None:
    program = Program(tmp_path / "data")
    program.start()
    recorders = [Recorder(tmp_path / "data", program.port, number) for number in range(CLIENTS)]
    stop = threading.Event()
    threads = [threading.Thread(target=recorder.run, args=(stop,)) for recorder in recorders]
    try:
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(PHASE_SECONDS)
            program.kill()
            time.sleep(0.2)
            program.start()
        time.sleep(PHASE_SECONDS)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        program.kill()
    histories: dict[str, list[Operation]] = defaultdict(list)
    for recorder in recorders:
        for key, operations in recorder.histories.items():
            histories[key] += operations
    answered = sum(recorder.answered for recorder in recorders)
    unknown = sum(each.outcome is UNKNOWN for history in histories.values() for each in history)
    print(f"{answered} answers, {unknown} operations without an answer")  # noqa: T201 - shown when it fails
    assert answered > 500
    assert unknown > 0, "no operation was interrupted: the test did not test kills"
    for key, history in sorted(histories.items()):
        assert is_linearizable(history), f"{key} is not linearizable: {history}"
        spoiled = stale_read_added(history)
        assert not is_linearizable(spoiled), (
            "the checker accepts a read of a value that was overwritten long before"
        )


def stale_read_added(history: list[Operation]) -> list[Operation]:
    """The same history with a read of the first value at the end, when it is long gone."""
    first = next(each for each in history if each.outcome is DONE and each.kind in (Kind.CREATE, Kind.PATCH))
    end = max(each.ended for each in history if each.ended < inf) + 1
    return [*history, Operation(Kind.READ, end, end + 1, DONE, first.value, first.version)]

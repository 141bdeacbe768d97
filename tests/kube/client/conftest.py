"""An API server that answers by script, and a clock without delays."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from volcano.base.clock import Instant
from volcano.base.http.messages import Answer, Request, Response, Stream
from volcano.base.http.pool import ConnectionPool
from volcano.base.http.server import Server
from volcano.kube.client.http import HttpClient


class PatientClock:
    """Sleeping takes no time but is recorded; now() advances as if it had."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.start = 1_800_000_000.0

    def now(self) -> Instant:
        elapsed = sum(self.slept)
        return Instant(self.start + elapsed, elapsed)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Script:
    """Answers in order; the last one repeatedly. Records the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer | Callable[[Request], Answer]] = []
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request) if callable(answer) else answer

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.target}" for request in self.requests]


def json(value: Any, status: int = 200, **headers: str) -> Response:
    """A JSON answer; header names may use underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(status, {"Content-Type": "application/json", **named}, orjson.dumps(value))


def refusal(code: int, reason: str, message: str = "no", **headers: str) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return json(status, code, **headers)


def stream(*chunks: bytes) -> Stream:
    """An answer in these chunks."""

    async def pieces() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
            await asyncio.sleep(0)

    return Stream(pieces(), headers={"Content-Type": "application/json"})


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
async def server(script: Script) -> AsyncIterator[Server]:
    async with Server(script) as running:
        yield running


@pytest.fixture
async def client(server: Server, clock: PatientClock) -> AsyncIterator[HttpClient]:
    made = HttpClient(ConnectionPool(server.url), clock, chance=lambda: 0.5)
    yield made
    await made.close()

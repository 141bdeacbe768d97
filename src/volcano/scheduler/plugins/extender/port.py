"""The port to an extender: what carries a question out and an answer back, and how a cycle with one is replayed."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol


class Port(Protocol):
    """Posts JSON to a URL. Raises OSError or ValueError when there is no good answer in time."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes: ...


def fingerprint(url: str, body: bytes) -> str:
    """What a question is known by in a recording."""
    return sha256(url.encode() + b"\n" + body).hexdigest()


class Recorder:
    """A port that remembers every answer, and every failure, of the port behind it."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.answers: dict[str, str] = {}
        self.failures: dict[str, str] = {}

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        key = fingerprint(url, body)
        try:
            answer = self._port.post(url, body, timeout)
        except (OSError, ValueError) as error:
            self.failures[key] = str(error)
            raise
        self.answers[key] = answer.decode()
        return answer


class Replay:
    """A port that answers from a recording and never goes out."""

    def __init__(self, answers: Mapping[str, str], failures: Mapping[str, str] | None = None) -> None:
        self._answers = answers
        self._failures = failures or {}

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        key = fingerprint(url, body)
        if key in self._answers:
            return self._answers[key].encode()
        raise OSError(self._failures.get(key, f"the recording has no answer to this question to {url}"))


class NoPort:
    """The port of a scheduler that was given none."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        raise OSError(f"this scheduler was given no way to reach {url}")

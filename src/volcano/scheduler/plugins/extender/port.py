"""Port of an extender: sends requests, and records and replays the responses of a cycle."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol


class Port(Protocol):
    """Posts JSON to a URL. Raises OSError or ValueError without a good response in time."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes: ...


def fingerprint(url: str, body: bytes) -> str:
    """Returns the key of a request in a recording."""
    return sha256(url.encode() + b"\n" + body).hexdigest()


class Recorder:
    """Records the responses and errors of another port."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.answers: dict[str, str] = {}
        self.failures: dict[str, str] = {}

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        key = fingerprint(url, body)
        try:
            response = self._port.post(url, body, timeout)
        except (OSError, ValueError) as error:
            self.failures[key] = str(error)
            raise
        self.answers[key] = response.decode()
        return response


class Replay:
    """Answers from a recording, without any connection."""

    def __init__(self, answers: Mapping[str, str], failures: Mapping[str, str] | None = None) -> None:
        self._answers = answers
        self._failures = failures or {}

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        key = fingerprint(url, body)
        if key in self._answers:
            return self._answers[key].encode()
        raise OSError(self._failures.get(key, f"the recording has no response for this request to {url}"))


class NoPort:
    """Rejects every request: no port is configured."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        raise OSError(f"this scheduler was given no way to reach {url}")

"""Port of an extender: sends requests, and records and replays the responses of a cycle."""

from collections.abc import Mapping
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Protocol
from urllib.parse import urlsplit


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


LONGEST = 10 * 2**20  # bytes of a response


class HttpPort:
    """Posts with one connection per request; any status but 200 is an error."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address; write http://host:port/path")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=timeout)
        try:
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path or "/", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read(LONGEST + 1)
        except HTTPException as error:
            raise OSError(f"{url}: {error!r}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"{url} answered {response.status} {response.reason}")
        if len(content) > LONGEST:
            raise ValueError(f"{url} answered more than {LONGEST} bytes")
        return content

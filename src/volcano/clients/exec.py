"""Runs a command in a container through the API server and receives its output."""

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

import orjson

from volcano.clients.http import HttpClient
from volcano.clients.requests import path_of
from volcano.kube.errors import Unavailable
from volcano.kube.kinds import POD
from volcano.kube.manifest import Key, Manifest
from volcano.net.client_connection import RequestFailed

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_MAX_STDERR = 4096


class ExecFailed(Exception):
    """The command could not be run, or ended with an error; the message includes what it wrote to stderr."""


async def execute(
    client: HttpClient, pod: Key, container: str, command: Sequence[str], on_output: Callable[[bytes], object]
) -> None:
    """Runs a command without input to its end; `on_output` gets its standard output in pieces."""
    words = [
        ("container", container),
        ("stdout", "true"),
        ("stderr", "true"),
        *(("command", word) for word in command),
    ]
    target = f"{path_of(POD, pod.namespace, pod.name, 'exec')}?{urlencode(words)}"
    errors, status = b"", b""
    try:
        async with client.websocket(target, protocols=PROTOCOLS) as socket:
            async for message in socket:
                channel, data = message.data[0] if message.data else -1, message.data[1:]
                if channel == _STDOUT:
                    on_output(data)
                elif channel == _STDERR:
                    errors = (errors + data)[:_MAX_STDERR]
                elif channel == _STATUS:
                    status += data
    except RequestFailed as error:
        raise Unavailable(str(error)) from error
    _check(pod, orjson.loads(status) if status else {}, errors.decode("utf-8", "replace").strip())


def _check(pod: Key, status: Manifest, errors: str) -> None:
    if status.get("status") == "Success":
        return
    reason = errors or status.get("message") or "the connection was closed before its end"
    raise ExecFailed(f"command in pod {pod} failed: {reason}")

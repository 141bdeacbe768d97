"""The ways to ask something of a container: run a command in it, GET a path, open a connection, ask its gRPC health."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from volcano.nodes.cri import Runtime
from volcano.nodes.kubelet.probes.grpc_health import GrpcHealthError, check_health
from volcano.nodes.kubelet.probes.http_request import BadHttpResponse, open_stream, request
from volcano.nodes.shim.specs import Failure

MAX_OUTPUT = 10 * 1024
MAX_REDIRECTS = 10
USER_AGENT = "kube-probe/1.36"


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """How an attempt went. `well` is None when it could not even be made."""

    success: bool | None
    output: str = ""


class PortNotFound(Exception):
    """A port named that the container does not have."""


async def execute(runtime: Runtime, pod: str, container: str, command: Sequence[str]) -> HandlerResult:
    """Runs a command in a container; anything but exit code 0 is a failure, told with its output."""
    try:
        process = await runtime.execute(pod, container, command)
    except (Failure, OSError) as error:
        return HandlerResult(None, str(error))
    collected = [_Output(fd) for fd in (process.stdout, process.stderr) if fd is not None]
    try:
        code = await process.wait()
        text = b"".join(output.finish() for output in collected)
    finally:
        for output in collected:
            output.finish()
        process.close()
    return HandlerResult(code == 0, text[:MAX_OUTPUT].decode(errors="replace"))


class _Output:
    """Reads what a process writes, so that it never waits for us, and keeps as much as is worth telling.

    A child that the process left behind may hold the other end for ever: what was written by the end is enough.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def finish(self) -> bytes:
        while self._open and self._read():
            pass
        self._close()
        return bytes(self._kept)

    def _read(self) -> bool:
        """Whether there was something."""
        try:
            chunk = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        except OSError:  # a terminal says so when its other end is closed
            chunk = b""
        self._kept += chunk[: max(MAX_OUTPUT - len(self._kept), 0)]
        if not chunk:
            self._close()
        return bool(chunk)

    def _close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._fd)


async def http_get(
    runtime: Runtime, pod: str, address: str, container: Mapping[str, Any], get: Mapping[str, Any]
) -> HandlerResult:
    """GETs a path of the pod, or of the host that `get` names; 200 to 399 is well."""
    try:
        port = port_number(container, get.get("port", ""))
        tls = (get.get("scheme") or "HTTP").upper() == "HTTPS"
        host = get.get("host") or address
        path = get.get("path") or "/"
        url = f"{'https' if tls else 'http'}://{host}:{port}{path if path.startswith('/') else '/' + path}"
        return await _follow(runtime, pod, url, _headers(get), host)
    except PortNotFound as error:
        return HandlerResult(None, str(error))
    except (OSError, BadHttpResponse, Failure) as error:
        return HandlerResult(False, f'Get "{url}": {_error_text(error)}')


async def _follow(
    runtime: Runtime, pod: str, url: str, headers: Sequence[tuple[str, str]], host: str
) -> HandlerResult:
    """Follows redirects that stay on the same host; one that leads elsewhere counts as an answer."""
    for _ in range(MAX_REDIRECTS):
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        elsewhere = "" if parts.hostname == host else str(parts.hostname)
        sock = await runtime.connect(pod, port, host=elsewhere)
        named = any(name.lower() == "host" for name, _ in headers)
        sent = headers if named else (("Host", parts.netloc), *headers)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        answer = await request(sock, target, sent, tls=tls)
        if not 200 <= answer.status < 400:
            return HandlerResult(False, f"HTTP probe failed with statuscode: {answer.status}")
        location = answer.headers.get("location", "")
        if answer.status < 300 or not location:
            return HandlerResult(True, answer.body.decode(errors="replace"))
        url = urljoin(url, location)
        if urlsplit(url).hostname != host:
            return HandlerResult(True, "Probe terminated redirects")
    return HandlerResult(False, f"stopped after {MAX_REDIRECTS} redirects")


def _headers(get: Mapping[str, Any]) -> list[tuple[str, str]]:
    own = [(header["name"], header.get("value") or "") for header in get.get("httpHeaders") or ()]
    given = {name.lower() for name, _ in own}
    return [
        pair for pair in (("User-Agent", USER_AGENT), ("Accept", "*/*")) if pair[0].lower() not in given
    ] + own


async def tcp(
    runtime: Runtime, pod: str, address: str, container: Mapping[str, Any], how: Mapping[str, Any]
) -> HandlerResult:
    """Opens a connection and closes it again."""
    host = how.get("host") or ""
    try:
        port = port_number(container, how.get("port", ""))
        (await runtime.connect(pod, port, host=host)).close()
    except PortNotFound as error:
        return HandlerResult(None, str(error))
    except (OSError, Failure) as error:
        return HandlerResult(False, f"dial tcp {host or address}:{port}: {_error_text(error)}")
    return HandlerResult(True)


async def grpc(runtime: Runtime, pod: str, address: str, how: Mapping[str, Any]) -> HandlerResult:
    """Asks the standard health service."""
    port, service = int(how["port"]), how.get("service") or ""
    try:
        reader, writer = await open_stream(await runtime.connect(pod, port), tls=False)
    except (OSError, Failure) as error:
        return HandlerResult(
            False, f'timeout: failed to connect service "{address}:{port}": {_error_text(error)}'
        )
    try:
        state = await check_health(reader, writer, service, f"{address}:{port}")
    except (OSError, GrpcHealthError) as error:
        return HandlerResult(False, f"error: health rpc probe failed: {_error_text(error)}")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return HandlerResult(state == "SERVING", f'service unhealthy (responded with "{state}")')


def port_number(container: Mapping[str, Any], port: int | str) -> int:
    """A port by number, or by the name the container gives it."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    raise PortNotFound(f"couldn't find port: {port} in container {container['name']}")


def _error_text(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    return str(error) or type(error).__name__

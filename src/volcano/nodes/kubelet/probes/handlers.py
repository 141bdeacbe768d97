"""Handlers of probes and hooks: exec, httpGet, tcpSocket and grpc."""

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
    """Result of a handler. `success` is None when it could not be run."""

    success: bool | None
    output: str = ""


class PortNotFound(Exception):
    """The container has no port of this name."""


async def execute(runtime: Runtime, pod: str, container: str, command: Sequence[str]) -> HandlerResult:
    """Runs a command in a container; a non-zero exit code is a failure with its output."""
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
    """Reads the output of a process so that it never blocks, and keeps its beginning.

    A child process may keep the pipe open forever: output after the end of the process is ignored.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def finish(self) -> bytes:
        while self._open and self._read():
            pass
        self._close()
        return bytes(self._data)

    def _read(self) -> bool:
        """Returns whether data was read."""
        try:
            chunk = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        except OSError:  # EIO of a terminal whose other end is closed
            chunk = b""
        self._data += chunk[: max(MAX_OUTPUT - len(self._data), 0)]
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
    """GETs a path of the pod, or of the host in `get`; status codes 200 to 399 are a success."""
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
    """Follows redirects on the same host; one to another host is a success."""
    for _ in range(MAX_REDIRECTS):
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        other_host = "" if parts.hostname == host else str(parts.hostname)
        sock = await runtime.connect(pod, port, host=other_host)
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
    """Opens and closes a connection."""
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
    """Calls the standard health service."""
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
    """A port by number, or by its name in the container."""
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

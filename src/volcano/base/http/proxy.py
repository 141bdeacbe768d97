"""HTTP proxies: chosen by the usual environment variables, and the tunnel through them."""

import asyncio
import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

HEAD_LIMIT = 16 << 10


class ProxyError(OSError):
    """The proxy cannot be used or rejected the tunnel."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Address and credentials of an HTTP proxy."""

    host: str
    port: int
    secure: bool = False  # use TLS to the proxy itself
    authorization: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


def parse_proxy(url: str) -> Proxy:
    """Parses a URL such as `http://user:secret@proxy.example:3128`; raises ProxyError when it is malformed."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https"):
        raise ProxyError(f"proxy {url!r}: scheme {parts.scheme!r} is not supported; use http or https")
    if not parts.hostname:
        raise ProxyError(f"proxy {url!r} names no host; use http://host:port")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Proxy(parts.hostname, port, parts.scheme == "https", authorization)


def choose_proxy(url: str, environment: Mapping[str, str]) -> Proxy | None:
    """Returns the proxy for `url` by HTTP_PROXY, HTTPS_PROXY and NO_PROXY (or in lower case); None for none."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    address = _variable(environment, f"{parts.scheme}_proxy")
    if not address or is_exempt(host, port, _variable(environment, "no_proxy")):
        return None
    return parse_proxy(address)


def is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Whether `host` is reached directly: loopback always, other hosts by NO_PROXY."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry == "*" or (entry and _matches(entry, host.lower(), port, address)):
            return True
    return False


def _matches(
    entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdigit() and (name.count(":") == 0 or name.startswith("[")):
        if int(wanted) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return _address(entry) == address
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


class Tunnel(asyncio.Protocol):
    """Sends CONNECT to a proxy and waits for its response."""

    def __init__(self, proxy: Proxy, authority: str) -> None:
        self._proxy = proxy
        self._authority = authority
        self._received = b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        headers = {"Host": self._authority, **self._proxy.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        transport.write(f"CONNECT {self._authority} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self.opened.done():
            return
        if b"\r\n\r\n" in self._received:
            line = self._received.partition(b"\r\n")[0].decode("latin-1")
            words = line.split(" ", 2)
            if len(words) > 1 and words[1].startswith("2"):
                self.opened.set_result(None)
            else:
                self._fail(f"answered {line!r}")
        elif len(self._received) > HEAD_LIMIT:
            self._fail("answered with an endless head")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self._fail("closed the connection")

    def _fail(self, what: str) -> None:
        proxy = f"{self._proxy.host}:{self._proxy.port}"
        self.opened.set_exception(ProxyError(f"proxy {proxy} {what} when asked for {self._authority}"))

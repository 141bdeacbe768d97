"""The socket of a dashboard."""

import errno
import ipaddress
import socket

from volcano.cli.errors import CommandError
from volcano.cli.volcano.dashboard.flags import DEFAULT_PORT


def listen(address: str, port: int | None) -> socket.socket:
    """A listening socket on the port, or, when none was chosen, on the default port or a free one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for each in (port,) if port is not None else (DEFAULT_PORT, 0):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((address, each))
            found.listen(128)
        except OSError as error:
            found.close()
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            if error.errno == errno.EADDRINUSE:
                raise CommandError(
                    f"dashboard: port {each} of {address} is taken; choose another one, or 0 for a free one"
                ) from None
            raise CommandError(f"dashboard: cannot listen on {address}:{each}: {error.strerror}") from None
        found.setblocking(False)
        return found
    raise CommandError(f"dashboard: no port of {address} is free")


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"

"""Options of the dashboard."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class Authentication(StrEnum):
    """How viewers authenticate."""

    LINK = "link"  # a one-time link; viewers act with the kubeconfig's credentials
    TOKEN = "token"  # a bearer token of the API server, in a form or in the Authorization header
    PROXY = "proxy"  # headers of an authenticating proxy; the dashboard impersonates the user


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Where the dashboard listens, which cluster it shows and how viewers authenticate."""

    kubeconfig: str = ""
    context: str = ""
    address: str = "127.0.0.1"
    port: int = 0
    authentication: Authentication = Authentication.LINK
    link_key: bytes = b""  # signs one-time links
    allowed_hosts: tuple[str, ...] = ()  # names besides the address itself that the Host header may have
    certificate: Path | None = None
    private_key: Path | None = None
    user_header: str = "x-forwarded-user"
    groups_header: str = "x-forwarded-groups"
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = field(default=LOOPBACK)
    reports: Path | None = None  # directory of `volcano simulate` reports

    @property
    def encrypted(self) -> bool:
        return self.certificate is not None

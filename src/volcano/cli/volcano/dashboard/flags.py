"""Flags of `volcano dashboard`."""

import argparse
from pathlib import Path

from volcano.cli.program_parser import ProgramParser
from volcano.cli.volcano.cluster_flags import add_selection

DEFAULT_PORT = 8420


def add_dashboard_flags(parser: ProgramParser) -> None:
    """Adds all flags of `volcano dashboard`."""
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig of the cluster (default: as kubectl)"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="context of the kubeconfig")
    add_port(parser, "--port")
    parser.add_argument(
        "--address", default="127.0.0.1", help="address to listen on (default 127.0.0.1, this host only)"
    )
    parser.add_argument(
        "--reports",
        type=Path,
        metavar="DIR",
        help="directory of reports of `volcano simulate` to show (default with one-time links: the current "
        "directory)",
    )
    viewers = parser.add_argument_group("viewers")
    viewers.add_argument(
        "--auth",
        choices=("link", "token", "proxy"),
        default="link",
        help="link: a one-time link, viewers act with the kubeconfig's credentials (the default, on loopback only); "
        "token: viewers enter a bearer token of the API server; proxy: an authenticating proxy names the user",
    )
    viewers.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name under which browsers may reach the dashboard; repeatable",
    )
    viewers.add_argument(
        "--proxy-user-header", default="X-Forwarded-User", metavar="NAME", help="header with the user's name"
    )
    viewers.add_argument(
        "--proxy-groups-header",
        default="X-Forwarded-Groups",
        metavar="NAME",
        help="header with the user's groups, separated by commas",
    )
    viewers.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="CIDR",
        help="addresses of the authenticating proxy; repeatable (default: loopback, for a proxy in the same pod)",
    )
    viewers.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE", help="serve HTTPS with this certificate"
    )
    viewers.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="private key of it")
    parser.add_argument(
        "--link",
        action="store_true",
        help="print a new one-time link to the dashboard of a running `volcano up`",
    )
    add_selection(parser)
    parser.add_argument("--listen-fd", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--key-file", type=Path, help=argparse.SUPPRESS)


def add_up_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `volcano up` about its dashboard."""
    choice = parser.add_mutually_exclusive_group()
    add_port(choice, "--dashboard-port")
    choice.add_argument("--no-dashboard", action="store_true", help="serve no dashboard")


def add_port(parser: "argparse._ActionsContainer", name: str) -> None:
    parser.add_argument(
        name,
        type=_port,
        default=None,
        metavar="PORT",
        help=f"port of the dashboard (default {DEFAULT_PORT}, or a free one when it is taken)",
    )


def _port(text: str) -> int:
    if not text.isdigit() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port; a number from 0 to 65535 is, 0 for a free one"
        )
    return int(text)

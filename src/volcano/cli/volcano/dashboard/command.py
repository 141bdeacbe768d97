"""`volcano dashboard`: serves the dashboard of any cluster, or prints a link to that of a running one."""

import argparse
import asyncio
import importlib.util
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from volcano.base import log
from volcano.base.clock import SystemClock
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.volcano.dashboard.child import link_to
from volcano.cli.volcano.dashboard.listener import is_loopback, listen, url_of
from volcano.cli.volcano.status import find
from volcano.kube.client.kubeconfig import ClientConfig, Overrides

INSTALL = "the dashboard is not installed; `pip install 'volcano-py[dashboard]'` installs it"


def dashboard(arguments: argparse.Namespace) -> int:
    """Serves until it is stopped; with --link, prints a link and returns."""
    if arguments.link:
        print(link_to(find(arguments)))
        return 0
    if not installed():
        raise CommandError(INSTALL)
    config = _config(arguments)
    listener = (
        socket.socket(fileno=arguments.listen_fd)
        if arguments.listen_fd >= 0
        else listen(arguments.address, arguments.port)
    )
    return asyncio.run(_serve(arguments, config, listener))


def installed() -> bool:
    return importlib.util.find_spec("nicegui") is not None


def _config(arguments: argparse.Namespace) -> ClientConfig:
    from volcano.services.connection import Connection

    return Connection(
        kubeconfig=arguments.kubeconfig, overrides=Overrides(context=arguments.context)
    ).settings


async def _serve(arguments: argparse.Namespace, config: ClientConfig, listener: socket.socket) -> int:
    from volcano.dashboard.links import link, new_key, new_token
    from volcano.dashboard.options import LOOPBACK, Authentication, DashboardOptions
    from volcano.dashboard.server import serve

    _check(arguments)
    key = arguments.key_file.read_bytes() if arguments.key_file else new_key()
    options = DashboardOptions(
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        address=arguments.address,
        authentication=Authentication(arguments.auth),
        link_key=key,
        allowed_hosts=tuple(arguments.allowed_host),
        certificate=arguments.tls_cert_file,
        private_key=arguments.tls_private_key_file,
        user_header=arguments.proxy_user_header,
        groups_header=arguments.proxy_groups_header,
        trusted_proxies=_networks(arguments.trusted_proxy) or LOOPBACK,
        # Files of the current directory are shown to its owner only.
        reports=arguments.reports or (Path.cwd() if arguments.auth == "link" else None),
    )
    clock = SystemClock()
    log.configure(logging.WARNING)

    def announce() -> None:
        if arguments.listen_fd >= 0:
            return
        url = url_of(listener, "https" if options.encrypted else "http")
        if options.authentication is Authentication.LINK:
            print(f"The dashboard is at {link(url, new_token(key, clock.now().wall))}")
            print("This link works once, within ten minutes. Ctrl-C stops the dashboard.", flush=True)
        else:
            print(f"The dashboard is at {url}. Ctrl-C stops it.", flush=True)

    if arguments.listen_fd >= 0:
        _exit_with_parent()
    await serve(options, config, listener, clock, announce)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.auth == "link" and not is_loopback(arguments.address):
        raise UsageError(
            f"--address {arguments.address}: a viewer who opens a one-time link acts with your credentials, so it is "
            "served on loopback only; use --auth token or --auth proxy for other addresses",
        )
    if bool(arguments.tls_cert_file) != bool(arguments.tls_private_key_file):
        raise UsageError("--tls-cert-file and --tls-private-key-file belong together")


def _networks(texts: list[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise UsageError(
            f"--trusted-proxy: {error}; an address or network such as 10.0.0.0/8 is right"
        ) from None


def _exit_with_parent() -> None:
    """Ends this process when standard input ends: `volcano up` holds the other end for as long as it lives."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()

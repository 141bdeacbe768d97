"""The dashboard that `volcano up` starts, and the line it prints about it."""

import argparse
import sys
from pathlib import Path

from volcano.cli.volcano.dashboard.child import DashboardProcess, link_to
from volcano.cli.volcano.dashboard.command import INSTALL, installed
from volcano.embedded.state import Running


def start_dashboard(running: Running, arguments: argparse.Namespace) -> DashboardProcess | None:
    """Listens for browsers, unless the dashboard is not wanted or not installed."""
    if arguments.no_dashboard or not installed():
        return None
    started = DashboardProcess(Path(running.directory), running.kubeconfig, arguments.dashboard_port)
    started.start()
    return started


def dashboard_line(
    running: Running, dashboard: DashboardProcess | None, arguments: argparse.Namespace
) -> str:
    """Its address, or why there is none."""
    if dashboard is None:
        return "off" if arguments.no_dashboard else INSTALL
    return link_line(running, dashboard.url)


def link_line(running: Running, url: str) -> str:
    """A one-time link on a terminal, the address alone in a file, which may be kept as a log."""
    return link_to(running) if sys.stdout.isatty() else f"{url} (`volcano dashboard --link` prints a link)"

"""`vcctl version`: what this program is and what it runs on."""

import argparse
import platform

from volcano import __version__
from volcano.cli.session import Session

API_VERSION = "v1alpha1"
UNKNOWN = "unknown"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """`vcctl version` takes nothing of its own."""


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Prints the version information."""
    for name, value in (
        ("API Version", API_VERSION),
        ("Version", __version__),
        ("Git SHA", UNKNOWN),
        ("Built At", UNKNOWN),
        ("Python Version", platform.python_version()),
        ("Python OS/Arch", f"{platform.system().lower()}/{platform.machine()}"),
    ):
        session.write(f"{name}: {value}")
    return 0

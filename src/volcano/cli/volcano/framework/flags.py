"""Commands and flags of `volcano frameworks`."""

import argparse
from collections.abc import Callable

from volcano.cli.volcano.cluster_flags import add_output

AddCommand = Callable[[str, str], argparse.ArgumentParser]


def add_framework_commands(add: AddCommand) -> None:
    """Adds the commands; `add` creates the parser of one, from its words and its help."""
    add_output(add("frameworks list", "list frameworks, installed or not"))
    install = add("frameworks install", "install frameworks into the cache, for examples and your own jobs")
    _add_names(install)
    install.add_argument(
        "--timeout", default="", metavar="DURATION", help="give up after this time, for each (default: never)"
    )
    install.add_argument("--force", action="store_true", help="install again what is installed")
    add_output(install)
    _add_names(add("frameworks remove", "remove frameworks from the cache, every version"))
    path = add("frameworks path", "print the directory of an installed framework")
    path.add_argument("framework", metavar="NAME", help="name, as `volcano frameworks list` prints it")


def _add_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "frameworks", nargs="+", metavar="NAME", help="names, as `volcano frameworks list` prints them"
    )

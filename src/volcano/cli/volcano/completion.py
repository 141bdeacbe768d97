"""`volcano completion`: the completion script of a shell, and the hidden command that it calls."""

import argparse
from collections.abc import Iterable

from volcano.cli.completion.candidates import NameRequest, complete, encode
from volcano.cli.completion.scripts import script


def print_script(arguments: argparse.Namespace) -> int:
    """Prints the script of a shell."""
    print(script(arguments.shell, "volcano", ("volcano",)), end="")
    return 0


def print_candidates(arguments: argparse.Namespace) -> int:
    """Prints the words that may come next."""
    from volcano.cli.volcano.parser import build_parser

    print(encode(complete(build_parser(), arguments.words, names, "volcano")))
    return 0


def names(request: NameRequest) -> Iterable[str]:
    """Names of clusters, examples, frameworks, presets and contexts; without access to a cluster."""
    if request.sort == "local-clusters":
        from volcano.embedded.contexts import running_clusters

        return [running.name for running in running_clusters()]
    if request.sort == "examples":
        from volcano.cli.volcano.example_files import names as example_names

        return example_names()
    if request.sort == "frameworks":
        from volcano.frameworks.install import recipe_names

        return recipe_names()
    return []

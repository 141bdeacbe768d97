"""Flags shared by several commands."""

import argparse

from volcano.cli.errors import UsageError

OUTPUTS = ("wide", "json", "yaml", "name")


def add_namespace(parser: argparse.ArgumentParser, *, may_be_a_name: bool = False) -> None:
    """Adds `-n` and `--namespace`, kept apart because `-n` may be the name."""
    meaning = "namespace, or the name if no other flag gives one" if may_be_a_name else "namespace"
    parser.add_argument("-n", dest="short_n", default="", metavar="NAMESPACE", help=meaning)
    parser.add_argument("--namespace", default="", help="namespace (default: of the context)")


def add_target(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the name of a namespaced object: by position, `-N`, `--name`, or `-n` if nothing else gives it."""
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help=f"name of the {what}")
    parser.add_argument("-N", "--name", default="", help=f"name of the {what}")
    add_namespace(parser, may_be_a_name=True)


def add_named(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the name of a cluster-scoped object: by position, `-n`, `-N` or `--name`."""
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help=f"name of the {what}")
    parser.add_argument("-n", "-N", "--name", default="", help=f"name of the {what}")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds `-o` for commands that print objects."""
    parser.add_argument(
        "-o", "--output", type=output_format, default="", metavar="FORMAT",
        help="json, yaml, wide, name or jsonpath=TEMPLATE",
    )  # fmt: skip


def add_data_output(parser: argparse.ArgumentParser, meaning: str = "json or yaml") -> None:
    """Adds `-o` for commands that print data."""
    parser.add_argument("-o", "--output", type=_data_format, default="", metavar="FORMAT", help=meaning)


def add_list(parser: argparse.ArgumentParser, *, namespaced: bool = True) -> None:
    """Adds the flags of every list. `-A` has no effect on cluster-scoped kinds."""
    if namespaced:
        add_namespace(parser)
    add_everywhere(parser, hidden=not namespaced)
    add_list_alone(parser)


def add_everywhere(parser: argparse.ArgumentParser, *, hidden: bool = False) -> None:
    """Adds `-A`."""
    text = argparse.SUPPRESS if hidden else "list all namespaces"
    parser.add_argument("-A", "--all-namespaces", action="store_true", help=text)


def add_list_alone(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of every list, except the namespace."""
    parser.add_argument(
        "-l", "--label-selector", default="", metavar="SELECTOR", help="only objects with these labels"
    )
    parser.add_argument(
        "--sort-by", default="", metavar="FIELD", help="column, or path such as .metadata.name"
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="keep watching, and print changed and deleted objects"
    )
    parser.add_argument("--no-headers", action="store_true", help="print no column names")
    add_output(parser)


def output_format(text: str) -> str:
    """Validates the value of `-o`."""
    if text and text not in OUTPUTS and not text.startswith("jsonpath="):
        raise UsageError(f"-o: {text!r} is none of {', '.join(OUTPUTS)} and jsonpath=TEMPLATE")
    return text


def _data_format(text: str) -> str:
    if text not in ("", "json", "yaml"):
        raise UsageError(f"-o: {text!r} is none of json, yaml")
    return text

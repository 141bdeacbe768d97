"""`vcctl help`: the help of a command, as `COMMAND --help` prints it."""

import argparse

from volcano.cli.errors import UsageError, near
from volcano.cli.session import Session


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="command, such as: job list")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Prints the help of the named command, or of the program."""
    from volcano.cli.program import chosen, parser_of  # imported late: it imports the table of commands

    root = parser_of(str(arguments.leaf).split(" ")[0])
    parser = chosen(root, arguments.words)
    if parser.prog.split(" ")[1:] != list(arguments.words):
        known = [
            name for action in parser._actions if isinstance(action.choices, dict) for name in action.choices
        ]
        word = next(word for word in arguments.words if word not in parser.prog.split(" ")[1:])
        raise UsageError(f"unknown command {word!r}{near(word, known)}")
    parser.prepare()
    session.write(parser.format_help(), end="")
    return 0

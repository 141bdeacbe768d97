"""Parser of the programs: errors are one line with a suggestion, and every help ends with examples."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from volcano.cli.errors import USAGE, UsageError
from volcano.cli.parsing import Parser
from volcano.cli.program import chosen


class ProgramParser(Parser):
    """Exits with 2 and `PROGRAM: usage error: MESSAGE` when a command line is invalid."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        given = list(sys.argv[1:] if args is None else args)
        try:
            parsed: argparse.Namespace = super().parse_args(given, namespace)
            return parsed
        except UsageError as error:
            self.fail(str(error), given)

    def fail(self, message: str, given: Sequence[str] = ()) -> NoReturn:
        """Exits because the command line is invalid."""
        leaf = chosen(self, given)
        message = message.removeprefix("argument ")
        self.exit(USAGE, f"{self.prog}: usage error: {message}\nSee `{leaf.prog} --help`.\n")


def examples(*lines: str) -> str:
    """Examples as the last part of a help text."""
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)


def whole_number(text: str) -> int:
    """A number of things: 0 or more."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more (got {number})")
    return number

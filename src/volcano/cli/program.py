"""Main function of all command line programs: parse, open a session, run, return the exit code."""

import os
import sys
from collections.abc import Sequence

from volcano.cli.commands import SLURM, VCCTL
from volcano.cli.errors import BROKEN_PIPE, INTERRUPTED, UsageError, exit_code, explain
from volcano.cli.parsing import Parser, build, build_single
from volcano.services.errors import ServiceError

ABOUT = "Submit, watch and manage batch jobs on Kubernetes."


def main(words: Sequence[str] | None = None, *, program: str = "vcctl") -> int:
    """Runs one command line; returns the exit code. Never raises."""
    parser = parser_of(program)
    given = list(sys.argv[1:] if words is None else words)
    title = program
    try:
        try:
            arguments = parser.parse_args(given)
        except UsageError as error:
            leaf = chosen(parser, given)
            raise UsageError(f"{error}\nSee `{leaf.prog} --help`.") from None
        if not hasattr(arguments, "command"):
            chosen(parser, given).print_help()
            return 0
        title = arguments.command.failure or _title(arguments.command.words)
        from volcano.cli.session import Session  # imported late so that `--help` starts fast

        return Session.of(arguments).run(arguments.run, arguments)
    except SystemExit as ending:  # --help
        return int(ending.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has exited. That is not an error, and Python must not print a traceback at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        return _report(title, explain(error))


def parser_of(program: str) -> Parser:
    """Parser of a program by name."""
    if program in SLURM:
        return build_single(program, SLURM[program])
    return build(program, ABOUT, VCCTL)


def chosen(parser: Parser, words: Sequence[str]) -> Parser:
    """Innermost parser that the words select."""
    for word in words:
        branches = [action for action in parser._actions if isinstance(action.choices, dict)]
        if branches and branches[0].choices and word in branches[0].choices:
            parser = dict(branches[0].choices)[word]
    return parser


def _title(words: str) -> str:
    """`Failed to view job`, as Volcano prints it: leaf first."""
    return " ".join(["Failed to", *reversed(words.split())])


def _report(title: str, error: ServiceError) -> int:
    sys.stderr.write(f"{title}: {error}\n")
    return exit_code(error)

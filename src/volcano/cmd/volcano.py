"""`volcano`: a whole cluster in one process, and jobs on a temporary one."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from volcano.cli.errors import BROKEN_PIPE, INTERRUPTED
from volcano.cli.volcano.parser import COMMANDS, build_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        return _execute(parsed)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as `head`, has exited
        sys.stderr.close()
        return BROKEN_PIPE


def _execute(parsed: argparse.Namespace) -> int:
    from volcano.base.os_errors import explain_os_error
    from volcano.cli.errors import exit_code
    from volcano.services.errors import ServiceError

    module, _, function = COMMANDS[parsed.command].partition(":")
    command: Callable[[argparse.Namespace], int] = getattr(
        import_module(f"volcano.cli.volcano.{module}"), function
    )
    try:
        return command(parsed)
    except ServiceError as error:
        print(f"volcano: {error}", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"volcano: {explain_os_error(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

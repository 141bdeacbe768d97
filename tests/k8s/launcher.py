"""Starts one of our programs with a clock that jumps on a signal: `python -m tests.k8s.launcher <module> ...`.

SIGUSR2 puts the wall clock forward by an hour, SIGHUP back by one; the monotonic clock goes on, as on a real machine.
With `--look-every=<seconds>` in front, the webhook manager looks after its certificates that often.
"""

import importlib
import signal
import sys
import time

from volcano.clock import Instant, SystemClock

HOUR = 3600.0


class Offset:
    """How far the wall clock is off, in seconds."""

    seconds = 0.0

    def jump(self, by: float) -> None:
        self.seconds += by


def main(arguments: list[str]) -> int:
    offset = Offset()
    signal.signal(signal.SIGUSR2, lambda *_: offset.jump(HOUR))
    signal.signal(signal.SIGHUP, lambda *_: offset.jump(-HOUR))
    SystemClock.now = lambda self: Instant(  # type: ignore[method-assign]
        time.time() + offset.seconds, time.monotonic()
    )
    if arguments[0].startswith("--look-every="):
        webhooks = importlib.import_module("volcano.entry.webhooks")
        setattr(webhooks, "LOOK_EVERY", float(arguments.pop(0).partition("=")[2]))  # noqa: B010
    module = importlib.import_module(f"volcano.entry.{arguments[0]}")
    return int(module.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

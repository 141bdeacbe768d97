"""Starts one of our programs with a clock that jumps on a signal: `python -m tests.k8s.launcher <module> ...`.

SIGUSR2 puts the wall clock forward by an hour, SIGHUP back by one; the monotonic clock goes on, as on a real machine.
In front of the module, `--ahead=<seconds>` starts with a clock that is wrong already, and `--look-every=<seconds>` lets
the webhook manager look after its certificates that often.
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
    while arguments[0].startswith("--"):
        flag, _, value = arguments.pop(0).partition("=")
        if flag == "--ahead":
            offset.jump(float(value))
        else:
            webhooks = importlib.import_module("volcano.entry.webhooks")
            setattr(webhooks, "LOOK_EVERY", float(value))  # noqa: B010
    module = importlib.import_module(f"volcano.entry.{arguments[0]}")
    return int(module.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Starts one of our programs with a clock that jumps on a signal: `python -m tests.k8s.launcher <module> ...`.

SIGUSR2 puts the wall clock forward by an hour, SIGHUP back by one; the monotonic clock is not changed, as on a real
machine. Before the module, `--ahead=<seconds>` sets the initial offset of the wall clock, and
`--check-every=<seconds>` the interval at which the webhook manager checks its certificates.
"""

import importlib
import signal
import sys
import time

from volcano.base.clock import Instant, SystemClock

HOUR = 3600.0


class Offset:
    """The offset of the wall clock, in seconds."""

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
            webhooks = importlib.import_module("volcano.cmd.webhooks")
            assert hasattr(webhooks, "CHECK_SECONDS")
            setattr(webhooks, "CHECK_SECONDS", float(value))  # noqa: B010
    module = importlib.import_module(f"volcano.cmd.{arguments[0]}")
    return int(module.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Removes the pods of a cluster with a lifeline when the `volcano` process that started them exits.

`python -m volcano.nodes.runtimes.engine.lifeline <engine> <program> <cluster> <holder> <memory>`: standard
input is a pipe whose write end only that process has, so the kernel closes it in any case.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from volcano.base.clock import Clock, SystemClock
from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine.cleanup import remove_cluster

DONE = b"done"  # sent when the process has removed everything itself
_EMPTY_PASSES = 2  # consecutive passes that find nothing: a call to the engine may have survived its caller
_PASS_INTERVAL = 1.0
_MAX_PASSES = 60


def main(engine: str, program: str, cluster: str, holder: str, memory: str) -> None:
    if sys.stdin.buffer.read() != DONE:
        asyncio.run(_remove_pods(engine, program, cluster, holder, SystemClock()))
        shutil.rmtree(Path(memory), ignore_errors=True)


async def _remove_pods(engine: str, program: str, cluster: str, holder: str, clock: Clock) -> None:
    empty = 0
    for _ in range(_MAX_PASSES):
        only = f"{commands.HOLDER}={holder}"
        empty = 0 if remove_cluster(program, commands.PROFILES[engine], cluster, only) else empty + 1
        if empty == _EMPTY_PASSES:
            return
        await clock.sleep(_PASS_INTERVAL)


if __name__ == "__main__":
    main(*sys.argv[1:])

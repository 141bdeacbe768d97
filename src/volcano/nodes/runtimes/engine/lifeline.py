"""Ends the pods of a throw-away cluster when the `volcano` that started them is gone, however that went.

`python -m volcano.nodes.runtimes.engine.lifeline <engine> <program> <cluster> <holder>`: standard input is a pipe
whose other end only that process has, so the kernel closes it in any case.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from volcano.clock import Clock, SystemClock
from volcano.nodes.runtimes.engine import commands as commands
from volcano.nodes.runtimes.engine.cleanup import remove_everything

DONE = b"done"  # said by one who has removed everything himself
_QUIET = 2  # looks in a row that find nothing: a call to the engine may have outlived its caller
_PAUSE = 1.0
_MOST_LOOKS = 60


def main(engine: str, program: str, cluster: str, holder: str, memory: str) -> None:
    if sys.stdin.buffer.read() != DONE:
        asyncio.run(_end(engine, program, cluster, holder, SystemClock()))
        shutil.rmtree(Path(memory), ignore_errors=True)


async def _end(engine: str, program: str, cluster: str, holder: str, clock: Clock) -> None:
    quiet = 0
    for _ in range(_MOST_LOOKS):
        only = f"{commands.HOLDER}={holder}"
        quiet = 0 if remove_everything(program, commands.FLAVOURS[engine], cluster, only) else quiet + 1
        if quiet == _QUIET:
            return
        await clock.sleep(_PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])

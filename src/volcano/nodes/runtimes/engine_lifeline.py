"""Ends the pods of a throw-away cluster when the `volcano` that started them is gone, however that went.

`python -m volcano.nodes.runtimes.engine_lifeline <engine> <program> <cluster> <holder>`: standard input is a pipe
whose other end only that process has, so the kernel closes it in any case.
"""

import shutil
import sys
import time
from pathlib import Path

from volcano.nodes.runtimes import engine_commands as commands
from volcano.nodes.runtimes.engine_sweeping import remove_everything

DONE = b"done"  # said by one who has removed everything himself
_QUIET = 2  # looks in a row that find nothing: a call to the engine may have outlived its caller
_PAUSE = 1.0
_MOST_LOOKS = 60


def main(engine: str, program: str, cluster: str, holder: str, memory: str) -> None:
    if sys.stdin.buffer.read() == DONE:
        return
    quiet = 0
    for _ in range(_MOST_LOOKS):
        only = f"{commands.HOLDER}={holder}"
        quiet = 0 if remove_everything(program, commands.FLAVOURS[engine], cluster, only) else quiet + 1
        if quiet == _QUIET:
            break
        time.sleep(_PAUSE)
    shutil.rmtree(Path(memory), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

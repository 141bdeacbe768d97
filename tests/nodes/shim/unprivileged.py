"""Program that tests run as user 65534: uses a shim without root and prints the results as JSON."""

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from tests.nodes.shim.rig import Rig, marked, read_all
from volcano.nodes.shim.specs import Failure, Identity, Mode


async def main(directory: Path, mode: Mode) -> dict[str, Any]:
    found: dict[str, Any] = {"user": os.geteuid()}
    rig = Rig(directory, mode=mode, lifeline=True)
    await rig.open()
    found["limitations"] = list(rig.runtime.features.limitations)
    state = await rig.shell("id -u; exit 3", identity=Identity(user=1234))
    found["ended"] = [state.exit_code, *rig.output()]
    await rig.start("sleep", "60", name="long")
    process = await rig.runtime.execute(
        rig.pod, "long", ["sh", "-c", "test -t 0 && exit 7"], stdin=True, tty=True
    )
    found["exec"] = await process.wait()
    process.close()
    process = await rig.runtime.execute(rig.pod, "long", ["echo", "hello"])
    found["said"] = (await read_all(process.stdout)).decode()
    process.close()
    found["refused"] = await without_forks(rig)
    await rig.shell("exit 5", name="after")
    found["after"] = rig.ends[-1].exit_code
    await rig.close(keep=False)
    found["left"] = marked(directory)
    return found


async def without_forks(rig: Rig) -> list[str]:
    """The error when the shim may not fork."""
    soft, hard = resource.prlimit(rig.runtime.pid, resource.RLIMIT_NPROC)
    resource.prlimit(rig.runtime.pid, resource.RLIMIT_NPROC, (1, hard))
    try:
        await rig.start("true", name="one-too-many")
    except Failure as failure:
        return [failure.reason, failure.message]
    finally:
        resource.prlimit(rig.runtime.pid, resource.RLIMIT_NPROC, (soft, hard))
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1]), Mode(sys.argv[2])))))

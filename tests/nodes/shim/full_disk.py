"""Program that a test runs on a tiny filesystem: uses a shim on a full disk and prints the results as JSON."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.nodes.shim.rig import Rig, until
from volcano.nodes.shim.specs import Failure

WRITER = """
import sys
for _ in range(30000):
    print("x" * 100)
print(flush=True)
open(sys.argv[1], "w")
sys.stdin.readline()
print("after")
"""


async def main(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rig = Rig(directory, lifeline=True)
    await rig.open()
    await rig.start("python3", "-c", WRITER, str(directory / "writer-output"), name="writer", stdin=True)
    await rig.start("sh", "-c", "read go; exit 42", name="quiet", stdin=True)
    filler = os.open(directory / "filler", os.O_WRONLY | os.O_CREAT)
    while os.write(filler, bytes(1 << 16)) == 1 << 16:
        await asyncio.sleep(0)
    try:
        while os.write(filler, bytes(64)):
            pass
    except OSError as error:
        found["disk"] = error.strerror
    found["started"] = (await rig.shell("exit 9", name="late")).exit_code
    late = directory / "shim" / "state" / rig.pod / "late.0.json"
    found["unwritten"] = not late.exists()
    found["refused"] = await without_files(rig)
    quiet = await rig.runtime.attach(rig.pod, "quiet")
    assert quiet.stdin is not None
    os.write(quiet.stdin, b"\n")
    found["quiet"] = (await rig.ended("quiet")).exit_code
    quiet.close()
    written = json.loads((directory / "shim" / "state" / rig.pod / "quiet.0.json").read_text())
    found["written"] = written["exit_code"]
    await until((directory / "writer-output").exists)
    os.close(filler)
    (directory / "filler").unlink()
    writer_process = await rig.runtime.attach(rig.pod, "writer")
    assert writer_process.stdin is not None
    os.write(writer_process.stdin, b"\n")
    found["writer"] = (await rig.ended("writer")).exit_code
    writer_process.close()
    found["last"] = rig.output("writer")[-2:]
    await until(late.exists)
    found["written late"] = json.loads(late.read_text())["exit_code"]
    found["next"] = (await rig.shell("exit 6", name="next")).exit_code
    await rig.close(keep=False)
    return found


async def without_files(rig: Rig) -> list[str]:
    """The errors when not even an empty file can be created."""
    made: list[Path] = []
    try:
        while True:
            path = rig.directory / f"file-{len(made)}"
            path.touch()
            made.append(path)
    except OSError:
        pass
    try:
        await rig.start("true", name="refused")
    except Failure as failure:
        return [failure.reason, failure.message]
    finally:
        for path in made:
            path.unlink()
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1])))))

"""Large YAML bodies: converted to JSON by another process, which has limits of time and memory.

Reading YAML takes about 4 us a value, during which no other request could be answered.
"""

import asyncio
import resource
import sys
from typing import Any

import orjson

from volcano.apiserver.limits import YAML_LIMITS
from volcano.base.yaml_loader import YamlError, YamlTooLarge, load_yaml
from volcano.kube.api.errors import ApiError, BadRequest, TooLarge, Unavailable

MAX_PROCESSES = 2
MAX_SECONDS = 10.0
MAX_MEMORY = 1 << 30
PREFIX = "error converting YAML to JSON: "


class YamlProcesses:
    """Starts a process for each large body, a few at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_PROCESSES)

    async def load(self, body: bytes) -> tuple[Any, list[str]]:
        """Returns the value and an error message for each duplicate key. Raises BadRequest or TooLarge."""
        async with self._free:
            output = await _run(body)
        if output is None:
            raise TooLarge(f"{PREFIX}it took longer than {MAX_SECONDS:g} s or more than {MAX_MEMORY} bytes")
        result = orjson.loads(output)
        if "problem" in result:
            raise (TooLarge if result["tooLarge"] else BadRequest)(PREFIX + result["problem"])
        return result["value"], result["duplicates"]


async def _run(body: bytes) -> bytes | None:
    """Output of the process; None when it exceeded its limits."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working directory is not a place to import from
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise Unavailable(f"no process for a large YAML body: {error.strerror}", retry_after=1) from None
    try:
        output, _ = await asyncio.wait_for(process.communicate(body), MAX_SECONDS)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output if process.returncode == 0 else None


def yaml_error(error: YamlError) -> ApiError:
    """The error of a body."""
    return (TooLarge if isinstance(error, YamlTooLarge) else BadRequest)(f"{PREFIX}{error}")


def main() -> None:
    """Converts standard input to JSON on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    seconds = int(MAX_SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    result: dict[str, Any]
    try:
        document = load_yaml(sys.stdin.buffer.read(), YAML_LIMITS)
        result = {"value": document.value, "duplicates": list(map(str, document.duplicates))}
    except YamlError as error:
        result = {"problem": str(error), "tooLarge": isinstance(error, YamlTooLarge)}
    sys.stdout.buffer.write(orjson.dumps(result))


if __name__ == "__main__":
    main()

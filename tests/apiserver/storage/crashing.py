"""A process to be killed: writes to a data directory as fast as it can and says what was acknowledged.

It imports everything once and forks a child for each life that is asked for on its standard input.
"""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.apiserver.registries import config_map, namespace, registry
from tests.apiserver.storage.faults import inject
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.compaction import Compactor
from volcano.apiserver.storage.journal import DurableStore
from volcano.base.clock import SystemClock
from volcano.kube.api.errors import AlreadyExists, NotFound, SpaceExceeded, Unavailable
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key

WRITERS = 16
NAMES = 12
# What the process does beside writing: nothing, compaction of a short history, or failures for lack of space.
JOURNAL, COMPACTION, FULL_DISK = MODES = ("journal", "compaction", "full-disk")
COMPACTION_INTERVAL = 0.02


def say(*words: object) -> None:
    """One line, at once: what has been said survives the process."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write(durable: DurableStore, client: DirectClient, writer: int, life: str) -> None:
    """Creates, changes and deletes objects of its own, for ever."""
    random, count = Random(f"{life}{writer}"), 0
    while True:
        name = f"w{writer}-{random.randrange(NAMES)}"
        key, count = Key("default", name), count + 1
        value = f"{life}-{count}"
        padding = "x" * random.choice((10, 1000, 20_000))
        try:
            match random.randrange(4):
                case 0:
                    answer = await client.create(CONFIG_MAP, config_map(name, v=value, p=padding))
                case 1 | 2:
                    answer = await client.patch(CONFIG_MAP, key, {"data": {"v": value, "p": padding}})
                case _:
                    await client.delete(CONFIG_MAP, key)
                    say("gone", name, durable.store.committed_version, "-")
                    continue
        except (AlreadyExists, NotFound):
            continue
        except (SpaceExceeded, Unavailable):
            await asyncio.sleep(0)
            continue
        say("kept", name, answer["metadata"]["resourceVersion"], value)


async def main(directory: Path, life: str, mode: str) -> None:
    durable = DurableStore(directory, history=20 if mode == COMPACTION else 200)
    client = DirectClient(registry(durable.store, prefix=life))
    if durable.store.get("namespaces", Key("", "default")) is None:
        await client.create(NAMESPACE, namespace("default"))
    say("open", "-", durable.store.version, "-")
    if mode == FULL_DISK:
        random = Random(life)
        failing = frozenset(random.randrange(1, 2000) for _ in range(20))
        inject(durable, failing, random.choice((500, 1000, 1 << 60)), 0, Path(tempfile.gettempdir()))
    async with asyncio.TaskGroup() as group:
        if mode == COMPACTION:
            group.create_task(Compactor(durable.store, SystemClock(), COMPACTION_INTERVAL).run())
        for writer in range(WRITERS):
            group.create_task(write(durable, client, writer, life))


def serve() -> None:
    """Forks a child for each line: the directory, the life and the mode."""
    for line in sys.stdin:
        directory, life, mode = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.run(main(Path(directory), life, mode))
        say("pid", "-", pid, "-")
        os.waitpid(pid, 0)
        say("ended", "-", 0, "-")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve()

"""A process to be killed: writes to a data directory as fast as it can and says what was acknowledged."""

import asyncio
import os
import sys
from pathlib import Path
from random import Random

from tests.apiserver.registries import config_map, namespace, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.storage.journal import DurableStore
from volcano.kube.api.errors import AlreadyExists, NotFound
from volcano.kube.api.kinds import CONFIG_MAP, NAMESPACE
from volcano.kube.api.manifest import Key

WRITERS = 16
NAMES = 12


def say(*words: object) -> None:
    """One line, at once: what has been said survives the process."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write(client: DirectClient, writer: int, life: str) -> None:
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
                    say("gone", name, "-", "-")
                    continue
        except (AlreadyExists, NotFound):
            continue
        say("kept", name, answer["metadata"]["resourceVersion"], value)


async def main(directory: Path, life: str) -> None:
    durable = DurableStore(directory, history=200)
    client = DirectClient(registry(durable.store, prefix=life))
    if durable.store.get("namespaces", Key("", "default")) is None:
        await client.create(NAMESPACE, namespace("default"))
    say("open", "-", durable.store.version, "-")
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write(client, writer, life))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

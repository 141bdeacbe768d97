"""Default queues: creates the root and the default queue."""

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api import names
from volcano.kube.api.errors import AlreadyExists, ApiError
from volcano.kube.api.kinds import QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Client

log = Log("queues")

TRIES = 60


async def ensure_queues(client: Client, clock: Clock, default_queue: str = names.DEFAULT_QUEUE) -> None:
    """Creates the root and the default queue if they do not exist; retries for a minute."""
    for name, reclaimable in ((names.ROOT_QUEUE, False), (default_queue, True)):
        for _ in range(TRIES):
            try:
                await client.create(QUEUE, _queue(name, reclaimable=reclaimable))
            except AlreadyExists:
                break
            except ApiError as error:
                log.info("queue not created yet", queue=name, reason=error.message)
                await clock.sleep(1.0)
            else:
                log.info("queue created", queue=name)
                break


def _queue(name: str, *, reclaimable: bool) -> Manifest:
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": reclaimable},
    }

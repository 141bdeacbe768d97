"""Certainty: what became of a pod whose binding or eviction went unanswered or was denied, as the server has it.

A lost answer is no refusal: the pod may have its node. To forget the binding before the watch tells of it would give
its room to somebody else.
"""

from volcano.clock import Clock
from volcano.kube.client import Client, Decode, Query
from volcano.kube.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from volcano.kube.kinds import POD
from volcano.log import Log
from volcano.model.decisions import Bind, Evict
from volcano.model.task import Task

log = Log("certainty")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# What the server says after having looked at the write itself: nothing was done.
DEFINITE_ERRORS = (NotFound, Invalid, BadRequest, Forbidden)


async def read_pod(client: Client, clock: Clock, decision: Bind | Evict, decode: Decode) -> Task | None:
    """The pod a decision is about, read afresh however long the server is away; None when it is gone."""
    # A list of one needs no right that the watch of all pods does not need.
    query = Query(namespace=decision.namespace, fields=f"metadata.name={decision.name}")
    pause = FIRST_PAUSE
    while True:
        try:
            found = (await client.list(POD, query, decode=decode)).items
        except ApiError as error:
            log.info("pod not read yet", pod=f"{decision.namespace}/{decision.name}", reason=error.message)
            await clock.sleep(max(pause, error.retry_after))
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        return next((task for task in found if task.uid == decision.task), None)

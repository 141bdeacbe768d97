"""Read-back: the state of a pod on the server after a binding or eviction without a definite answer.

A lost answer is not a rejection: the pod may have been bound. Forgetting the binding before the watch reports it would
give the resources to another pod.
"""

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound
from volcano.kube.api.kinds import POD
from volcano.kube.client.protocol import Client, Decode, Query
from volcano.model.decisions import Bind, Evict
from volcano.model.task import Task

log = Log("writeback")

BACKOFF = Backoff(first=0.1, longest=5.0)
# Errors the server returns only after it evaluated the write: nothing was changed.
DEFINITE_ERRORS = (NotFound, Invalid, BadRequest, Forbidden)


async def read_pod(client: Client, clock: Clock, decision: Bind | Evict, decode: Decode) -> Task | None:
    """The pod of a decision, retried until the server answers; None when it no longer exists."""
    # A list with a field selector needs no permission beyond that for the watch of all pods.
    query = Query(namespace=decision.namespace, fields=f"metadata.name={decision.name}")
    failures = 0
    while True:
        try:
            found = (await client.list(POD, query, decode=decode)).items
        except ApiError as error:
            log.info("pod not read", pod=f"{decision.namespace}/{decision.name}", reason=error.message)
            await clock.sleep(max(BACKOFF.delay(failures), error.retry_after))
            failures += 1
            continue
        return next((task for task in found if task.uid == decision.task), None)

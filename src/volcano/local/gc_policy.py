"""Garbage collection in a process that holds a whole cluster: the young as they come, the rest when nobody waits.

Nearly everything here is freed when the last reference goes; the collector is for the few cycles. Left to itself it
would walk every pod's manifest again and again while the cluster is busiest.
"""

import asyncio
import gc
import time

# Objects made before the young are looked at, how many such looks make an older one, and those a complete one.
THRESHOLDS = (5_000, 10, 10_000)
CHECK_INTERVAL = 5.0  # seconds
IDLE_CPU_SHARE = 0.05  # share of a processor below which nobody waits for us
# A complete collection walks everything, which takes a second with 20,000 pods.
FULL_COLLECTION_INTERVAL = 3600.0


class GcPolicy:
    """The policy of this process from `begin` to `end`."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def apply(self) -> None:
        """What is there now stays: no collection looks at it again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def restore(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()

    async def run(self) -> None:
        """Whenever the process was idle for a while, collects among what is new, and spares what is left."""
        used, full_at = time.process_time(), time.monotonic() + FULL_COLLECTION_INTERVAL
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            before, used = used, time.process_time()
            if used - before > IDLE_CPU_SHARE * CHECK_INTERVAL:
                continue
            if time.monotonic() < full_at:
                gc.collect(1)
            else:
                gc.unfreeze()
                gc.collect()
                full_at = time.monotonic() + FULL_COLLECTION_INTERVAL
            gc.freeze()
            used = time.process_time()

"""Garbage collection in a process that holds a whole cluster: the young as they come, the rest when nobody waits.

Nearly everything here is freed when the last reference goes; the collector is for the few cycles. Left to itself it
would walk every pod's manifest again and again while the cluster is busiest.
"""

import asyncio
import gc
import time

# Objects made before the young are looked at, how many such looks make an older one, and those a complete one.
THRESHOLDS = (5_000, 10, 10_000)
LOOK_EVERY = 5.0  # seconds
IDLE = 0.05  # share of a processor below which nobody waits for us
# A complete collection walks everything, which takes a second with 20,000 pods.
COMPLETE_EVERY = 3600.0


class Tidying:
    """The policy of this process from `begin` to `end`."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def begin(self) -> None:
        """What is there now stays: no collection looks at it again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def end(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()

    async def run(self) -> None:
        """Whenever the process was idle for a while, collects among what is new, and spares what is left."""
        used, complete_at = time.process_time(), time.monotonic() + COMPLETE_EVERY
        while True:
            await asyncio.sleep(LOOK_EVERY)
            before, used = used, time.process_time()
            if used - before > IDLE * LOOK_EVERY:
                continue
            if time.monotonic() < complete_at:
                gc.collect(1)
            else:
                gc.unfreeze()
                gc.collect()
                complete_at = time.monotonic() + COMPLETE_EVERY
            gc.freeze()
            used = time.process_time()

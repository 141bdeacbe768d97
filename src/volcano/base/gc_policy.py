"""Garbage-collection policy of the process: young generations as usual, older ones only while the process is
idle.

Nearly all objects are freed by reference counting; the collector is needed for few cycles. By default it
would traverse every pod's manifest again and again under load.
"""

import asyncio
import contextlib
import ctypes
import gc
import time

# Allocations per young collection, young collections per middle one, and middle ones per full one.
THRESHOLDS = (5_000, 10, 10_000)
CHECK_INTERVAL = 5.0  # seconds
IDLE_CPU_SHARE = 0.05  # share of a processor below which the process counts as idle
# A full collection takes a second with 20,000 pods.
FULL_COLLECTION_INTERVAL = 3600.0
TRIM_INTERVAL = 60.0


class GcPolicy:
    """The policy of this process between `apply` and `restore`."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def apply(self) -> None:
        """Exempts the present objects from collection."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def restore(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()

    async def run(self) -> None:
        """Collects new objects whenever the process was idle, and exempts the rest."""
        used, full_at = time.process_time(), time.monotonic() + FULL_COLLECTION_INTERVAL
        trim_at = 0.0
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
            if time.monotonic() >= trim_at:
                return_memory()
                trim_at = time.monotonic() + TRIM_INTERVAL
            used = time.process_time()


def return_memory() -> None:
    """Returns freed memory to the system, where the C library can; it keeps what lies below memory in use otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

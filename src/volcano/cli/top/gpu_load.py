"""Load of the GPUs of local nodes, read from the metrics of the API server."""

from collections.abc import Callable, Iterable

from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError
from volcano.kube.api.manifest import Manifest
from volcano.views.devices import GpuFigures, is_measured, parse_gpu_load

METRICS = "/metrics"
READ_EVERY = 10.0  # seconds: nodes measure as often


async def read_gpu_load(session: Session) -> tuple[GpuFigures, ...]:
    """Figures of all GPUs; none without the right to read metrics."""
    try:
        reply = await session.client.raw("GET", METRICS)
    except ApiError:
        return ()
    return parse_gpu_load(reply.body.decode(errors="replace")) if reply.status == 200 else ()


class GpuLoadReader:
    """Reads the figures again and again, while there are nodes that have some."""

    def __init__(self, session: Session, nodes: Callable[[], Iterable[Manifest]]) -> None:
        self.figures: tuple[GpuFigures, ...] = ()
        self._session = session
        self._nodes = nodes

    async def run(self) -> None:
        while True:
            self.figures = await read_gpu_load(self._session) if is_measured(self._nodes()) else ()
            await self._session.clock.sleep(READ_EVERY)

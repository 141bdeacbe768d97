"""Load values, and the contract of their sources."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from volcano.model.node import Node
from volcano.scheduler.engine.load_settings import LoadSettings


class NodeLoad(NamedTuple):
    """Measured load of a node, averaged over the collected period."""

    cpu: float  # percent
    memory: float  # percent
    measured: float  # wall time


class LoadSourceError(Exception):
    """A source that does not answer, or not with load values."""


class LoadSource(Protocol):
    """One kind of source."""

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        """Returns the load of the nodes that the source knows. Raises LoadSourceError; a value that is missing is
        left out, it is not zero."""
        ...

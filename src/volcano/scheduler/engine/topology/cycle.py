"""The part of a cycle that knows domains of nodes."""

from functools import cached_property

from volcano.scheduler.engine.placement.cycle import PlacementCycle
from volcano.scheduler.engine.topology.session_topology import SessionTopology


class TopologyCycle(PlacementCycle):
    """A cycle with the domains of nodes, and what jobs ask of them."""

    @cached_property
    def topology(self) -> SessionTopology:
        return SessionTopology(self)

"""The built-in kinds with their strategies."""

from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry.strategies import strategy_for
from volcano.kube import kinds

# Kinds that are stored as another kind.
STORED_AS = {kinds.EVENTS_EVENT: kinds.EVENT}


def built_in_kinds() -> list[Served]:
    """Every built-in kind as it is served."""
    return [Served(kind, STORED_AS.get(kind, kind), strategy_for(kind)) for kind in kinds.BUILT_IN]

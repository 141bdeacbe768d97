"""The objects that one viewer may see, at one moment."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from volcano.dashboard.rights import Scopes
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.views.board import Board, Picture, board

Result = TypeVar("Result")


class Objects:
    """Objects by kind, from the shared informer. They are shared between viewers and must not be changed."""

    def __init__(
        self, generation: int, now: float, objects: Mapping[Kind, Sequence[Manifest]], scopes: Scopes
    ) -> None:
        self.generation = generation  # of the feed
        self.now = now  # wall time
        self.scopes = scopes
        self._objects = objects
        self._results: dict[object, Any] = {}

    def of(self, kind: Kind) -> Sequence[Manifest]:
        """Objects of a kind; none when the viewer may not list it."""
        return self._objects.get(kind, ())

    def get(self, function: "Callable[[Objects], Result]") -> Result:
        """Result of a function of these objects, computed once for all viewers that see the same."""
        if function not in self._results:
            self._results[function] = function(self)
        result: Result = self._results[function]
        return result

    @cached_property
    def board(self) -> Board:
        """Rows of queues, jobs and nodes, as `vcctl top` computes them."""
        queues, jobs, groups, pods, nodes = map(self.of, (QUEUE, JOB, POD_GROUP, POD, NODE))
        complete = all(map(self.scopes.everywhere, (JOB, POD_GROUP, POD)))
        return board(Picture(queues, jobs, groups, pods, nodes, self.now, complete=complete))

"""Objects of small clusters, as the shared informer gives them to a page."""

from collections.abc import Sequence

from tests.views.pictures import NOW, picture
from volcano.dashboard.feed import SHOWN
from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import Scopes
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.views.board import Picture

ALL = Scopes.everything(SHOWN)


def objects_of(
    shown: Picture | None = None, *, scopes: Scopes = ALL, now: float = NOW, generation: int = 1
) -> Objects:
    """The objects of a picture, by default of the one that the tests of `vcctl top` use."""
    shown = shown or picture()
    found: dict[Kind, Sequence[Manifest]] = {
        QUEUE: shown.queues, JOB: shown.jobs, POD_GROUP: shown.groups, POD: shown.pods, NODE: shown.nodes
    }  # fmt: skip
    return Objects(generation, now, found, scopes)

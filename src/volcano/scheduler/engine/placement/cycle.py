"""The part of a cycle that places tasks."""

from functools import cached_property

from volcano.model.resources import Vector
from volcano.model.snapshot import Snapshot
from volcano.model.task import Shape
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.cycle import Cycle
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.faults import FailedHooks
from volcano.scheduler.engine.placement.chosen_scores import ScoreRecorder
from volcano.scheduler.engine.placement.placer import Placer
from volcano.scheduler.engine.timings import Timings


class PlacementCycle(Cycle):
    """A cycle with the placer, and the scores of chosen nodes if they are recorded."""

    def __init__(
        self,
        snapshot: Snapshot,
        config: Config,
        timings: Timings,
        failed_hooks: FailedHooks,
        record_scores: bool = False,
    ) -> None:
        super().__init__(snapshot, config, timings, failed_hooks)
        self.placer = Placer(self)
        self.scores = ScoreRecorder(self, self.placer) if record_scores else None
        self.largest_minimum: dict[str, Vector] = {}  # by queue: see `oversized_job`
        # By queue and shape: the length of the ledger's log of touched rows then, and the limit that was exceeded.
        self.queue_rejections: dict[tuple[str, Shape], tuple[int, Rejection | None]] = {}

    @cached_property
    def whole_cluster(self) -> Vector:
        """Allocatable resources of all nodes."""
        total: Vector = self.snapshot.allocatable.sum(axis=0)
        return total

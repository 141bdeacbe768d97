"""Claims of pods in one cycle: nodes whose devices satisfy them, reservations, and what is written before a binding."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from volcano.model.decisions import ReserveClaim
from volcano.model.devices import ALL, Allocation, ClaimSpec, DeviceClaim, DeviceRequest
from volcano.model.parse_devices import parse_allocation
from volcano.model.resources import Mask, Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import MAX_SCORE, RejectedNodes
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.node_table import NodeTable, Rows
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.predicates.devices.allocator import Allocator, Picks, SearchLimitExceeded
from volcano.scheduler.plugins.predicates.devices.manifests import allocation_manifest
from volcano.scheduler.plugins.predicates.devices.state import DeviceState, Holding
from volcano.scheduler.plugins.predicates.labels import LabelColumns

CLAIM_PROBLEM, FEW_DEVICES = Code.DEVICE_CLAIM_PROBLEM, Code.INSUFFICIENT_DEVICES
MOST_CONSUMERS = 256
MOST_ALTERNATIVES = 8
Searched = list[Picks] | SearchLimitExceeded | None


class DeviceClaims:
    """Answers the questions of the plugin about tasks with resource claims."""

    def __init__(
        self, session: Session, labels: LabelColumns, memory: Mapping[str, Any] | None, timeout: float
    ) -> None:
        self.session = session
        self.state = DeviceState(session, labels, memory)
        self._timeout = timeout
        self._now = session.timings.now
        self._reserved: dict[str, list[tuple[Holding, bool]]] = {}  # by task; whether it allocated the claim
        self._searches: dict[tuple[Any, ...], tuple[tuple[int, int], Searched]] = {}
        self._counted: dict[ClaimSpec, bool] = {}

    # -- filters ---------------------------------------------------------------------------------------------

    def rejection(self, task: Task) -> Rejection | None:
        """Rejects tasks of a shape whose claims do not exist."""
        for reference in task.shape.constraints.device_claims:
            if not reference.generated:
                return Rejection(
                    f'pod claim "{reference.name}": the resourceclaim is not created yet from template '
                    f'"{reference.template}"',
                    CLAIM_PROBLEM,
                )
            if reference.claim and (task.namespace, reference.claim) not in self.state.facts.claims:
                return Rejection(f'resourceclaim "{reference.claim}" not found', CLAIM_PROBLEM)
        return None

    def rejections(self, task: Task, nodes: NodeTable) -> Iterator[RejectedNodes]:
        """Rejects the nodes whose devices do not satisfy the claims of a task."""
        specs: list[ClaimSpec] = []
        for name in task.device_claims:
            claim = self.state.facts.claims.get((task.namespace, name))
            problem = self._problem(task, name, claim)
            if problem or claim is None:
                everywhere = np.ones(len(nodes), dtype=np.bool_)
                yield RejectedNodes(everywhere, problem, resolvable=False, code=CLAIM_PROBLEM)
                return
            holding = self.state.held.get(claim.key)
            if holding is None:
                specs.append(claim.spec)
                continue
            elsewhere = self.state.rejected(holding, nodes.index)
            if elsewhere.any():
                reason = f"node(s) cannot use the devices of resourceclaim {name}"
                yield RejectedNodes(elsewhere, reason, resolvable=False, code=FEW_DEVICES)
            if holding.pipelined:
                reason = f"node(s) where the devices of resourceclaim {name} are being released"
                everywhere = np.ones(len(nodes), dtype=np.bool_)
                yield RejectedNodes(everywhere, reason, now_only=True, code=FEW_DEVICES)
        if specs:
            yield from self._unsatisfied(tuple(specs), nodes)

    def _problem(self, task: Task, name: str, claim: DeviceClaim | None) -> str:
        """Why no node at all can be used for a claim."""
        if claim is None:
            return f"resourceclaim {name} does not exist"
        if claim.deleting:
            return f"resourceclaim {name} is being deleted"
        if claim.owner and claim.owner != task.uid:
            return f"resourceclaim {name} was created for another pod"
        holding = self.state.held.get(claim.key)
        if (
            holding is not None
            and len(holding.consumers) >= MOST_CONSUMERS
            and task.uid not in holding.consumers
        ):
            return f"resourceclaim {name} is reserved for {MOST_CONSUMERS} pods already"
        for alternatives in claim.spec.requests:
            missing = [
                each.device_class
                for each in alternatives
                if each.device_class not in self.state.facts.classes
            ]
            if len(missing) == len(alternatives):
                return f"device class {missing[0]} does not exist"
        return ""

    def _unsatisfied(self, specs: tuple[ClaimSpec, ...], nodes: NodeTable) -> Iterator[RejectedNodes]:
        later = self._feasible(specs, nodes.index, pipelined=True)
        if not later.all():
            yield RejectedNodes(~later, self._reason(specs), resolvable=True, code=FEW_DEVICES)
        if not self.state.is_waiting:
            return  # all that is free later is free now
        at_once = self._feasible(specs, nodes.index, pipelined=False)
        waiting = later & ~at_once
        if waiting.any():
            yield RejectedNodes(
                waiting, self._reason(specs), resolvable=True, now_only=True, code=FEW_DEVICES
            )

    def _feasible(self, specs: tuple[ClaimSpec, ...], rows: Rows, *, pipelined: bool) -> Mask:
        """The nodes with enough free devices; where counting is not enough, a search decides."""
        feasible = np.ones(len(rows), dtype=np.bool_)
        for spec in specs:
            for alternatives in spec.requests:
                if len(alternatives) == 1 and not alternatives[0].admin:
                    feasible &= self._counts(alternatives[0], rows, pipelined=pipelined)
        if len(specs) == 1 and self._is_counted(specs[0]):
            return feasible
        for place in np.flatnonzero(feasible).tolist():
            feasible[place] = isinstance(self._search(specs, int(rows[place]), pipelined=pipelined), list)
        return feasible

    def _counts(self, request: DeviceRequest, rows: Rows, *, pipelined: bool) -> Mask:
        free = self.state.free(request, pipelined=pipelined)
        least = 1 if request.mode == ALL or not free.is_plain else request.count
        enough: Mask = free.counts[rows] >= least
        return enough

    def _is_counted(self, spec: ClaimSpec) -> bool:
        """Whether counting free devices is exact: one request for a number of devices that are used as a whole."""
        known = self._counted.get(spec)
        if known is None:
            known = False
            if len(spec.requests) == 1 and len(spec.requests[0]) == 1:
                (request,) = spec.requests[0]
                plain = request.mode != ALL and not request.admin and not spec.constraints
                known = plain and self.state.free(request, pipelined=True).is_plain
            self._counted[spec] = known
        return known

    def _search(self, specs: tuple[ClaimSpec, ...], row: int, *, pipelined: bool) -> Searched:
        state = self.state
        version = (int(state.changes[row]), state.shared_changes)
        key = (specs, row, pipelined)
        known = self._searches.get(key)
        if known is not None and known[0] == version:
            return known[1]
        deadline = self._now() + self._timeout
        allocator = Allocator(
            state.index, state.usages(pipelined), row, expired=lambda: self._now() > deadline
        )
        try:
            found: Searched = allocator.allocate(specs)
        except SearchLimitExceeded as error:
            found = error
        self._searches[key] = version, found
        return found

    def _reason(self, specs: Sequence[ClaimSpec]) -> str:
        """The request that is hardest to satisfy, with the number of its devices in the cluster and in use."""
        index, scarce = self.state.index, None
        for request in (each for spec in specs for alternatives in spec.requests for each in alternatives):
            matching = index.matching(request)
            taken = int(np.count_nonzero(matching & self.state.now.taken))
            left = int(np.count_nonzero(matching)) - taken - request.count
            if scarce is None or left < scarce[0]:
                scarce = left, request, int(np.count_nonzero(matching)), taken
        if scarce is None:
            return "node(s) had no devices for the claims"
        _, request, matched, taken = scarce
        needed = "all" if request.mode == ALL else str(request.count)
        expressions = (*self.state.facts.classes[request.device_class].selectors, *request.selectors) if (
            request.device_class in self.state.facts.classes
        ) else ()  # fmt: skip
        failed = next((index.errors[each] for each in expressions if each in index.errors), "")
        return (
            f"node(s) had too few free devices of class {request.device_class} for request {request.name} "
            f"({needed} needed; in the cluster {matched} match, {taken} in use"
            f"{f'; a selector failed: {failed}' if failed else ''})"
        )

    # -- scores ----------------------------------------------------------------------------------------------

    def scores(self, task: Task, nodes: NodeTable) -> Vector | None:
        """Nodes on which earlier alternatives are available score higher."""
        specs = self._unallocated(task)
        most = sum(len(each) > 1 for spec in specs for each in spec.requests)
        if not most:
            return None
        scores = np.zeros(len(nodes))
        for place, row in enumerate(nodes.index.tolist()):
            for pipelined in (False, True):
                found = self._search(specs, row, pipelined=pipelined)
                if isinstance(found, list):
                    ranks = sum(rank for picks in found for rank in picks.ranks)
                    scores[place] = MAX_SCORE * (1 - ranks / (most * MOST_ALTERNATIVES))
                    break
        return scores

    def _unallocated(self, task: Task) -> tuple[ClaimSpec, ...]:
        found = []
        for name in task.device_claims:
            claim = self.state.facts.claims.get((task.namespace, name))
            if claim is not None and claim.key not in self.state.held:
                found.append(claim.spec)
        return tuple(found)

    # -- reservations ----------------------------------------------------------------------------------------

    def reserve(self, task: Task, row: int) -> Rejection | None:
        """Allocates the claims of a task, or joins those that are allocated; all of them or none."""
        state, pipelined = self.state, self.session.ledger.placing is Status.PIPELINED
        node = state.snapshot.nodes[row].name
        joined: list[Holding] = []
        fresh: list[DeviceClaim] = []
        for name in task.device_claims:
            claim = state.facts.claims.get((task.namespace, name))
            if (problem := self._problem(task, name, claim)) or claim is None:
                return Rejection(problem, CLAIM_PROBLEM)
            holding = state.held.get(claim.key)
            if holding is None:
                fresh.append(claim)
            elif state.rejected(holding, np.array((row,)))[0] or (holding.pipelined and not pipelined):
                return Rejection(f"node {node} cannot use the devices of resourceclaim {name}", FEW_DEVICES)
            else:
                joined.append(holding)
        specs = tuple(claim.spec for claim in fresh)
        found = self._search(specs, row, pipelined=pipelined) if specs else []
        if not isinstance(found, list):
            return Rejection(self._reason(specs), FEW_DEVICES)
        done = [(holding, False) for holding in joined if task.uid not in holding.consumers]
        for holding, _ in done:
            state.join(holding, task, node)
        for claim, picks in zip(fresh, found, strict=True):
            holding = self._holding(claim, picks, row, pipelined=pipelined)
            state.hold(holding)
            state.join(holding, task, node)
            done.append((holding, True))
        self._reserved[task.uid] = done
        return None

    def _holding(self, claim: DeviceClaim, picks: Picks, row: int, *, pipelined: bool) -> Holding:
        index, node = self.state.index, self.state.snapshot.nodes[row].name
        reaches = [(index.devices[at].reach, index.devices[at].binds_to_node) for at in picks.positions]
        devices = tuple(picks.with_share_ids(claim.uid))
        manifest = allocation_manifest(claim.spec, devices, reaches, node, self.state.facts.classes)
        if any(reach.node or binds_to_node for reach, binds_to_node in reaches):
            return Holding(claim, Allocation(devices), row, manifest=manifest, pipelined=pipelined)
        return Holding(claim, parse_allocation(manifest), manifest=manifest, pipelined=pipelined)

    def release(self, task: Task) -> None:
        """Undoes `reserve`."""
        for holding, allocated in reversed(self._reserved.pop(task.uid, [])):
            self.state.leave(holding, task)
            if allocated:
                self.state.drop(holding)

    def evict(self, task: Task) -> None:
        """Frees the devices of a task that is evicted, or whose placement of this cycle is taken back."""
        ledger = self.session.ledger
        if (reserved := self._reserved.get(task.uid)) is not None and not ledger.changed(task):
            node = next((holding.consumers[task.uid] for holding, _ in reserved), "")
            self.release(task)
            ledger.record_undo(lambda: self._take_again(task, node, reserved))
            return
        holdings = self.state.evict(task)
        ledger.record_undo(lambda: self.state.restore(task, holdings))

    def _take_again(self, task: Task, node: str, reserved: list[tuple[Holding, bool]]) -> None:
        for holding, allocated in reserved:
            if allocated:
                self.state.hold(holding)
            self.state.join(holding, task, node)
        self._reserved[task.uid] = reserved

    def bindings(self, task: Task) -> list[ReserveClaim]:
        """Decisions to be written to the claims of a placed task before it is bound."""
        found = []
        for holding, _ in self._reserved.get(task.uid, ()):
            claim = holding.claim
            if task.uid not in claim.reserved_for:
                protect = holding.manifest is not None and not claim.protected
                found.append(
                    ReserveClaim(
                        claim.namespace, claim.name, claim.uid, task.name, task.uid, holding.manifest, protect
                    )
                )
        return found

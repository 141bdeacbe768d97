"""Domain search: places a job, or the rest of it, inside the lowest domain that takes it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from volcano.model.job import Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import STEP
from volcano.model.status import READY, Status
from volcano.model.task import Shape, Task
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.domain_table import Numbers
from volcano.scheduler.engine.placement.gang import Area, complete_with_best_effort, place_tasks
from volcano.scheduler.engine.placement.job_queue import TaskQueue, pending
from volcano.scheduler.engine.surplus import role_minimums
from volcano.scheduler.engine.topology.cycle import TopologyCycle
from volcano.scheduler.engine.topology.demand import Demand, Limit
from volcano.scheduler.engine.topology.filling import Filling
from volcano.scheduler.engine.topology.reasons import RESTART, Shortage, diagnosis, no_room
from volcano.scheduler.engine.topology.rooms import by_shape

QUEUE_STAGE = "queue"


def place_in_domains(
    session: TopologyCycle, queue: Queue, task_queue: TaskQueue, demand: Demand, *, is_last: bool
) -> bool:
    """Places tasks of a job in its domain until the job is ready, or all of them when it is the last job.

    Tasks that are left in the queue of tasks are to be tried again. False when nothing could be placed and the job only
    prefers domains: the reasons are then those of the whole cluster.
    """
    return DomainSearch(session, queue, task_queue.job, demand).place(task_queue, is_last=is_last)


class DomainSearch:
    """Search for the domain of one job. Domains without enough room are left out by sums; the rest are tried."""

    def __init__(self, session: TopologyCycle, queue: Queue, job: Job, demand: Demand) -> None:
        self._session = session
        self._queue = queue
        self._job = job
        self._demand = demand
        self._before = session.diagnoses.by_job.get(job.uid)
        self._shortage: Shortage | None = None
        self._tried = False  # whether any domain had room
        self._best = -1  # tasks placed by the attempt that `_shortage` is about

    def place(self, task_queue: TaskQueue, *, is_last: bool) -> bool:
        session, job, tasks = self._session, self._job, task_queue.left()
        if self._demand.problem:
            session.diagnoses.record(
                diagnosis(job.uid, Shortage(self._demand.problem, code=Code.UNKNOWN_TIER))
            )
            task_queue.replace(())
            return True
        if not session.policy.job_ready(job):
            known = self._known_failure(tasks)
            if known is not None:
                session.diagnoses.record(diagnosis(job.uid, known))
                task_queue.replace(())
                return True
            if not self._start(tasks):
                return self._fail(task_queue, tasks, was_ready=False)
            tasks = self._left(tasks)
            if not is_last or not tasks or not session.policy.job_ready(job):
                task_queue.replace(tasks)
                return True
        tasks = self._extend(tasks, is_last=is_last)
        if not is_last and len(tasks) < len(task_queue.left()):
            task_queue.replace(tasks)
            return True
        task_queue.replace(())
        return not tasks or self._fail(task_queue, tasks, was_ready=True)

    def _known_failure(self, tasks: Sequence[Task]) -> Shortage | None:
        """The reason of a job like this one that no domain had room for, if nothing changed since."""
        if not self._is_simple:
            return None
        key, versions = self._kind(tasks)
        known = self._session.topology.failures.get(key)
        return known[1] if known is not None and known[0] == versions else None

    @property
    def _is_simple(self) -> bool:
        """Whether only the tasks decide: no sub-groups, roles or best-effort tasks, and no pods that hold resources."""
        job, ledger = self._job, self._session.ledger
        return not (
            job.sub_jobs
            or job.best_effort_pending
            or job.group.min_task_member
            or ledger.holding(job)
            or ledger.waiting(job)
        )

    def _kind(self, tasks: Sequence[Task]) -> tuple[object, object]:
        """Key of jobs that ask for the same, and the state of what their tasks can use."""
        rooms, queue = self._session.topology.rooms, self._queue.name
        shapes = by_shape(tasks)
        found = [rooms.of(alike[0], queue, pipelined=True) for alike in shapes.values()]
        versions = tuple((id(room), room.version) if room is not None else None for room in found)
        counts = tuple((shape, len(alike)) for shape, alike in shapes.items())
        nominated = any(task.nominated for task in tasks)
        lacking = self._session.policy.job_short(self._job)
        return (queue, counts, lacking, self._demand.job, nominated), versions

    def _left(self, tasks: Sequence[Task]) -> list[Task]:
        return [task for task in tasks if not self._session.ledger.changed(task)]

    # -- the job -----------------------------------------------------------------------------------

    def _start(self, tasks: Sequence[Task]) -> bool:
        """Places what the job lacks in one domain."""
        for idle_only, domain in self._attempts(tasks):
            self._tried = True
            if self._try(tasks, domain, is_last=False, idle_only=idle_only):
                return True
            if self._queue_rejected():
                break
        return False

    def _extend(self, tasks: Sequence[Task], *, is_last: bool) -> list[Task]:
        """Places one task more, or one sub-group, or with `is_last` all that fit; returns those that are left."""
        left = list(tasks)
        for idle_only, domain in self._attempts(tasks):
            if self._try(left, domain, is_last=is_last, idle_only=idle_only):
                left = self._left(left)
                if not left or not is_last:
                    break
            if self._queue_rejected():
                break
        return left

    def _attempts(self, tasks: Sequence[Task]) -> Iterator[tuple[bool, int]]:
        """Domains to try: all on idle resources only, then all on those being released as well."""
        for idle_only in (True, False):
            if idle_only or self._session.ledger.has_releasing:
                for domain in self._domains(tasks, idle_only=idle_only):
                    yield idle_only, domain

    def _domains(self, tasks: Sequence[Task], *, idle_only: bool) -> Iterator[int]:
        """Domains with room for what the job lacks, in the order to try them."""
        session, job, topology = self._session, self._job, self._session.topology
        limit, root = self._demand.job, topology.view.root
        wanted = [*tasks, *self._best_effort(tasks)]
        lacking = max(session.policy.job_short(job), 1)
        room = topology.rooms.total(by_shape(wanted), self._queue.name, pipelined=not idle_only)
        enough = room >= lacking
        for role, missing in self._missing_roles():
            shapes = by_shape([task for task in wanted if task.role == role])
            enough &= topology.rooms.total(shapes, self._queue.name, pipelined=not idle_only) >= missing
        first = self._first(tasks, limit)
        if first is not None and enough[first]:
            yield first
        for numbers in topology.candidates(limit, root, topology.held(job)):
            yield from topology.ordered(job, wanted, numbers[enough[numbers]], room)

    def _best_effort(self, tasks: Sequence[Task]) -> list[Task]:
        """Best-effort tasks that may complete the gang together with these."""
        if not self._job.best_effort_pending or tasks[0].best_effort:
            return []
        return pending(self._session, self._job, lambda task: task.best_effort)

    def _missing_roles(self) -> list[tuple[str, int]]:
        """Number of tasks that roles lack for their minimum."""
        if not self._job.group.min_task_member:
            return []
        tally = self._session.ledger.tally(self._job)
        return [
            (role, missing)
            for role, least in role_minimums(self._job).items()
            if (missing := least - tally.count_role(role, READY)) > 0
        ]

    def _first(self, tasks: Sequence[Task], limit: Limit | None) -> int | None:
        """The domain in which pods were evicted for these tasks, if it is within the limit."""
        if limit is None or self._session.topology.held(self._job) is not None:
            return None
        found = self._session.topology.nominated(tasks)
        return found if found is not None and self._session.topology.view.tiers[found] <= limit.tier else None

    def _try(self, tasks: Sequence[Task], domain: int, *, is_last: bool, idle_only: bool) -> bool:
        """Places in one domain; everything is undone unless the job is ready then, or pipelined."""
        if not self._job.sub_jobs:
            return self._try_once(tasks, domain, is_last=is_last, idle_only=idle_only)
        orders = self._orders(tasks)
        return any(self._try_once(order, domain, is_last=is_last, idle_only=idle_only) for order in orders)

    def _try_once(self, tasks: Sequence[Task], domain: int, *, is_last: bool, idle_only: bool) -> bool:
        session, job, policy = self._session, self._job, self._session.policy
        said = session.diagnoses.reasons(job)
        with session.ledger.statement() as statement:
            if job.sub_jobs:
                self._place_parts(tasks, domain, is_last=is_last, idle_only=idle_only)
            else:
                filling = Filling(
                    session,
                    self._queue,
                    job,
                    is_last,
                    idle_only,
                    lambda: self._queue_rejected() or (not is_last and self._is_done(idle_only=idle_only)),
                )
                filling.place(tasks, domain)
                if job.best_effort_pending:
                    area = Area(session.topology.mask(domain), idle_only)
                    complete_with_best_effort(session, self._queue, job, area)
            done = bool(statement.changes) and (
                policy.job_ready(job) or (not idle_only and policy.is_pipelined(job))
            )
            if done:
                statement.commit()
        if not self._queue_rejected():
            session.diagnoses.restore(job, said)
        return done

    def _queue_rejected(self) -> bool:
        """Whether the queue may not take more: no other domain helps."""
        found = self._session.diagnoses.by_job.get(self._job.uid)
        return found is not None and found is not self._before and found.stage == QUEUE_STAGE

    def _orders(self, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        """The tasks in policy order; if sub-groups differ in size, also with the largest first: what is placed first
        may take the only domain that another one fits in."""
        yield tasks
        total = np.maximum(self._session.snapshot.total, STEP)
        sizes: dict[str, float] = {}
        for task in tasks:
            part = self._job.sub_job_of[task.uid]
            sizes[part] = sizes.get(part, 0.0) + float((task.request / total).max())
        if not self._queue_rejected() and len({round(size, 9) for size in sizes.values()}) > 1:
            yield sorted(tasks, key=lambda task: -sizes[self._job.sub_job_of[task.uid]])

    # -- sub-groups --------------------------------------------------------------------------------

    def _place_parts(self, tasks: Sequence[Task], domain: int, *, is_last: bool, idle_only: bool) -> None:
        """Brings sub-groups to their minimum, one after the other, until the job is ready; then adds single tasks."""
        job = self._job
        parts: dict[str, list[Task]] = {}
        for task in tasks:
            parts.setdefault(job.sub_job_of[task.uid], []).append(task)
        for to_minimum in (True, False):
            for uid, members in parts.items():
                sub_job, left = job.sub_jobs[uid], members
                # Beyond its minimum, a sub-group grows task by task; below it, it starts as a whole or not at all.
                while left and bool(lacking := self._lacking(sub_job)) is to_minimum:
                    if not self._place_part(sub_job, left, max(lacking, 1), domain, idle_only=idle_only):
                        break
                    if not is_last and self._is_done(idle_only=idle_only):
                        return
                    left = self._left(left)
                if self._queue_rejected():
                    return

    def _lacking(self, sub_job: SubJob) -> int:
        tally = self._session.ledger.tally(sub_job)
        return max(0, sub_job.min_available - tally.count(READY) - tally.counts[Status.PIPELINED])

    def _is_done(self, *, idle_only: bool) -> bool:
        policy = self._session.policy
        return policy.job_ready(self._job) or (not idle_only and policy.is_pipelined(self._job))

    def _place_part(
        self, sub_job: SubJob, tasks: list[Task], wanted: int, inside: int, *, idle_only: bool
    ) -> bool:
        """Places so many tasks of a sub-group in its lowest domain that takes them, or none."""
        session, topology = self._session, self._session.topology
        limit, held = self._demand.part(sub_job), topology.held(sub_job)
        if len(tasks) < wanted:
            return False
        shapes = by_shape(tasks)
        room = topology.rooms.total(shapes, self._queue.name, pipelined=not idle_only)
        groups = topology.candidates(limit, inside, held)
        for numbers in groups:
            for domain in topology.ordered(sub_job, tasks, numbers[room[numbers] >= wanted], room):
                area = Area(topology.mask(domain), idle_only)
                with session.ledger.statement() as statement:
                    chosen = TaskQueue(self._job, tasks[:wanted])
                    place_tasks(session, self._queue, chosen, is_last=True, area=area)
                    done = all(session.ledger.changed(task) for task in tasks[:wanted])
                    if done:
                        statement.commit()
                        return True
                if self._queue_rejected():
                    return False
        if not idle_only or not session.ledger.has_releasing:
            self._note_part(sub_job, shapes, wanted, limit, groups, held)
        return False

    def _note_part(
        self,
        sub_job: SubJob,
        shapes: dict[Shape, list[Task]],
        wanted: int,
        limit: Limit | None,
        groups: Sequence[Numbers],
        held: int | None,
    ) -> None:
        """Keeps the reason of the attempt that placed most tasks."""
        placed = sum(self._session.ledger.changed(task) for task in self._job.by_status[Status.PENDING])
        if placed <= self._best:
            return
        examined = np.concatenate(groups) if groups else np.zeros(0, dtype=np.intp)
        found = no_room(self._session, self._queue.name, shapes, wanted, limit, examined, held)
        name = sub_job.uid.removeprefix(f"{sub_job.job}/")
        text = f"sub-group {name}: {found.text}" if sub_job.policy else found.text
        self._shortage = replace(found, text=text)
        self._best = placed

    # -- reasons -----------------------------------------------------------------------------------

    def _fail(self, task_queue: TaskQueue, tasks: Sequence[Task], *, was_ready: bool) -> bool:
        """Records why no domain takes the tasks, which are not tried again in this cycle."""
        session, job, topology = self._session, self._job, self._session.topology
        limit, held = self._demand.job, topology.held(job)
        task_queue.replace(())
        if self._queue_rejected():
            return True
        if not self._demand.is_hard and not job.sub_jobs:
            task_queue.replace(tasks)
            return False
        found = self._shortage
        if found is None:
            groups = topology.candidates(limit, topology.view.root, held)
            examined = np.concatenate(groups) if groups else np.zeros(0, dtype=np.intp)
            wanted = len(tasks) if was_ready else max(session.policy.job_short(job), 1)
            found = no_room(session, self._queue.name, by_shape(tasks), wanted, limit, examined, held)
            if held is not None and limit is not None and limit.hard and not was_ready and groups:
                found = replace(found, text=f"{found.text}; {RESTART}")
            if not was_ready and not self._tried and self._is_simple:
                key, versions = self._kind(tasks)
                topology.failures[key] = versions, found
        session.diagnoses.record(diagnosis(job.uid, found))
        return True

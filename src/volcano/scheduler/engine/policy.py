"""Policy: the configured plugins as one judge, one method per question, each naming its reducer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from volcano.model.decisions import ClaimVolume
from volcano.model.job import Job, SubJob
from volcano.model.queue import Queue
from volcano.model.resources import Vector
from volcano.model.status import Status
from volcano.model.task import Task
from volcano.scheduler.engine import reducers
from volcano.scheduler.engine.config import Config, PluginConfig
from volcano.scheduler.engine.faults import OPEN, SHARED, guarded, overrides
from volcano.scheduler.engine.nodetable import NodeTable
from volcano.scheduler.engine.plugin import Hunt, Plugin, Purpose, RejectedNodes, Rejection
from volcano.scheduler.engine.reducers import Ask, Named, Tiers

if TYPE_CHECKING:
    from volcano.scheduler.engine.session import Session

VOTES = {
    Purpose.PREEMPT: "preemptable",
    Purpose.RECLAIM: "reclaimable",
    Purpose.GANG_PREEMPT: "unified_evictable",
    Purpose.GANG_RECLAIM: "unified_evictable",
}
LED = frozenset(("job_order", "task_order"))  # what a leading plugin decides before all others

NO_JOBS: Mapping[str, Job] = {}
NOMINATIONS = "nominations"  # under which name missed ones are remembered between cycles


def nomination(task: Task) -> str:
    """What a task's nomination is known by; another node is another nomination."""
    return f"{task.uid}@{task.nominated}"


def _nominated(job: Job) -> list[Task]:
    return [task for task in job.by_status.get(Status.PENDING, ()) if task.nominated]


class Policy:
    """What the plugins, tier by tier, answer together."""

    def __init__(self, session: "Session", config: Config) -> None:
        self.session = session
        self.tiers: list[list[Plugin]] = []
        self._asked: dict[str, Tiers] = {}
        self.settings: dict[Plugin, PluginConfig] = {}
        self._disabled: dict[Plugin, frozenset[str]] = {}
        for tier in config.tiers:
            self.tiers.append([])
            for configured in tier:
                if (configured.name, OPEN) in session.aside:
                    continue
                plugin = guarded(configured.name, OPEN, configured.plugin)(session)
                plugin.name = configured.name
                self.tiers[-1].append(plugin)
                self.settings[plugin] = configured
                silent = {question for question in SHARED if (plugin.name, question) in session.aside}
                self._disabled[plugin] = configured.disabled | silent
        self._flat: dict[str, list[Ask]] = {}
        self._named: dict[str, list[Named]] = {}
        self._task_keys: dict[str, tuple[Any, ...]] = {}
        self._promised: dict[str, dict[str, Job]] | None = None  # who was promised room, by queue
        self._reserving: dict[Any, list[Plugin]] = {}
        self._impartial: dict[Purpose, bool] = {}
        self._voting: dict[str, tuple[list[Ask], Tiers, Tiers]] = {}
        self._reservers = [p for p in self.plugins if type(p).reserve is not Plugin.reserve]
        self._protectors = [p for p in self.plugins if type(p).filter_victims is not Plugin.filter_victims]

    @property
    def plugins(self) -> list[Plugin]:
        return [plugin for tier in self.tiers for plugin in tier]

    def hooks_by_tier(self, question: str) -> Tiers:
        """Who answers a question, by tier: plugins that override the method and are not switched off."""
        found = self._asked.get(question)
        if found is None:
            found = self._asked[question] = [
                [
                    (plugin.name, self._ask(plugin, question))
                    for plugin in tier
                    if self._answers(plugin, question)
                ]
                for tier in self.tiers
            ]
        return found

    def _answers(self, plugin: Plugin, question: str) -> bool:
        return (
            overrides(type(plugin), question)
            and question not in self._disabled[plugin]
            and question not in plugin.silent
        )

    def _ask(self, plugin: Plugin, question: str) -> Ask:
        ask: Ask = getattr(plugin, question)
        return guarded(plugin.name, question, ask) if question in SHARED else ask

    def named(self, question: str) -> list[Named]:
        """Who answers a question, in order, with their names."""
        found = self._named.get(question)
        if found is None:
            found = self._named[question] = [named for tier in self.hooks_by_tier(question) for named in tier]
        return found

    def hooks(self, question: str) -> list[Ask]:
        """Who answers a question, in order."""
        found = self._flat.get(question)
        if found is None:
            leaders = {plugin.name for plugin in self.plugins if plugin.leads}
            named = self.named(question)
            if question in LED:
                named = sorted(named, key=lambda each: each[0] not in leaders)
            found = self._flat[question] = [ask for _, ask in named]
        return found

    # -- order -------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """A key; the queue with the smallest is served first.

        Queues for whose jobs others were evicted go before all: else the evicted would take the room back.
        """
        key = reducers.order(self.hooks("queue_order"), queue)
        return (not self._owed(queue.name), *key, queue.created, queue.name)

    def _owed(self, queue: str) -> bool:
        """Whether room was made for a job of this queue that it has neither got nor, in this cycle, failed to use."""
        tally, failed = self.session.ledger.tally, self.session.verdicts
        return any(
            job.uid not in failed and tally(job).counts[Status.PENDING] > 0
            for job in self._promises().get(queue, NO_JOBS).values()
        )

    def _promises(self) -> dict[str, dict[str, Job]]:
        """The jobs for which others were evicted, by queue and uid."""
        if self._promised is None:
            self._promised = {}
            missed = set(self.session.snapshot.memory.get(NOMINATIONS, ()))
            for job in self.session.active_jobs():
                if any(nomination(task) not in missed for task in _nominated(job)):
                    self._promised.setdefault(job.queue, {})[job.uid] = job
        return self._promised

    def missed_nominations(self) -> list[str]:
        """Nominations of tasks that had their room and did not use it: it is owed to them no more."""
        snapshot, status = self.session.snapshot, self.session.ledger.status
        missed = []
        for job in self.session.active_jobs():
            for task in _nominated(job):
                row = snapshot.row_of.get(task.nominated)
                being_freed = row is not None and bool(snapshot.releasing[row].any())
                if status(task) is Status.PENDING and not being_freed:
                    missed.append(nomination(task))
        return missed

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """A key; the job with the smallest goes first; at equal terms the oldest. Kept until the job is touched."""
        tally = self.session.ledger.tally(job)
        key = tally.order
        if key is None:
            owed = job.uid in self._promises().get(job.queue, NO_JOBS)
            key = (not owed, *reducers.order(self.hooks("job_order"), job), job.created, job.uid)
            tally.order = key
        return key

    def sub_job_order(self, sub_job: SubJob) -> tuple[Any, ...]:
        return (*reducers.order(self.hooks("sub_job_order"), sub_job), sub_job.index, sub_job.uid)

    def task_order(self, task: Task) -> tuple[Any, ...]:
        """A key; at equal terms by the number at the end of the name, then by age."""
        key = self._task_keys.get(task.uid)
        if key is None:
            said = [ask(task) for ask in self.hooks("task_order")]
            key = self._task_keys[task.uid] = (*said, task.index, task.created, task.uid)
        return key

    def victim_order(
        self, hunt: Hunt, candidates: Sequence[Task], *, in_task_order: bool = False
    ) -> list[Task]:
        """The candidates, whom to evict first first: worse queues, then worse jobs, then worse tasks.

        With `in_task_order`, worse tasks come before better ones already.
        """
        if len(candidates) < 2:
            return list(candidates)
        jobs, queues = self.session.snapshot.jobs, self.session.snapshot.queues
        uids = {task.job for task in candidates}
        ordered = list(candidates) if in_task_order else sorted(candidates, key=self.task_order, reverse=True)
        if len(uids) > 1:
            job_keys = {uid: self.job_order(jobs[uid]) for uid in uids}
            ordered.sort(key=lambda task: job_keys[task.job], reverse=True)
        names = {jobs[uid].queue for uid in uids}
        if not hunt.purpose.across_queues or len(names) == 1:
            return ordered
        evictor = queues[hunt.job.queue]
        asked = self.hooks("victim_queue_order")
        # Later sorts win: first the reverse of queue order, then what plugins say about whom to take from.
        queue_keys = {name: self.queue_order(queues[name]) for name in names}
        ordered.sort(key=lambda task: queue_keys[jobs[task.job].queue], reverse=True)
        if asked:
            said = {name: reducers.order(asked, queues[name], evictor) for name in names}
            ordered.sort(key=lambda task: said[jobs[task.job].queue])
        return ordered

    # -- admission ---------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> Rejection | None:
        return reducers.first_refusal(self.named("job_valid"), job)

    def job_enqueueable(self, job: Job) -> Rejection | None:
        return reducers.tiered_vote(self.hooks_by_tier("job_enqueueable"), job)

    def job_enqueued(self, job: Job) -> None:
        reducers.tell_all(self.hooks("job_enqueued"), job)

    # -- gangs -------------------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        """How many more tasks the job needs at least. Kept until the job is touched."""
        tally = self.session.ledger.tally(job)
        short = tally.short
        if short is None:
            short = tally.short = reducers.most(self.hooks("job_short"), job)
        return short

    def job_ready(self, job: Job) -> bool:
        return self.job_short(job) <= 0

    def sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        return (
            reducers.most(self.hooks("sub_job_short"), sub_job) <= 0 if job.sub_jobs else self.job_ready(job)
        )

    def job_pipelined(self, job: Job) -> bool:
        return reducers.tiered_vote(self.hooks_by_tier("job_pipelined"), job) is None

    def job_starving(self, job: Job) -> int:
        """For how many more tasks others may be evicted."""
        return reducers.tiered_everyone(self.hooks_by_tier("job_starving"), job)

    # -- queues ------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        return reducers.anyone(self.hooks("overused"), queue)

    def allocatable(self, queue: Queue, task: Task, count: int = 1) -> int:
        return reducers.least(self.hooks("allocatable"), queue, task, count)

    def promise(self, task: Task) -> None:
        """Counts a task for its queue as if it were placed, wherever; for statements that are undone."""
        limiting = {name for name, _ in self.named("allocatable")}
        for name, tell in self.named("on_allocate"):
            if name in limiting:
                tell((task,), ())

    def why_not_allocatable(self, queue: Queue, task: Task) -> Rejection | None:
        return reducers.first_refusal(self.named("why_not_allocatable"), queue, task)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return reducers.everyone(self.hooks("preemptive"), queue, tasks)

    # -- nodes -------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> Rejection | None:
        return reducers.first_refusal(self.named("pre_predicate"), task)

    def reject_nodes(self, task: Task, nodes: NodeTable) -> list[tuple[str, RejectedNodes]]:
        return list(reducers.rejections(self.named("reject_nodes"), task, nodes))

    def reject_nodes_now(self, task: Task, nodes: NodeTable) -> list[tuple[str, RejectedNodes]] | None:
        """None when nobody cares about placements for tasks like this one."""
        found: list[tuple[str, RejectedNodes]] | None = None
        for name, ask in self.named("reject_nodes_now"):
            answer = ask(task, nodes)
            if answer is not None:
                found = found or []
                found.extend((name, reject) for reject in answer)
        return found

    def score_nodes(self, task: Task, nodes: NodeTable) -> Vector:
        return reducers.total(self.hooks("score_nodes"), task, nodes)

    def score_nodes_together(self, task: Task, nodes: NodeTable) -> Vector | None:
        """None when the feasible nodes need not be compared for tasks like this one."""
        scores: Vector | None = None
        for ask in self.hooks("score_nodes_together"):
            answer: Vector | None = ask(task, nodes)
            if answer is not None:
                scores = answer if scores is None else scores + answer
        return scores

    def best_node(self, task: Task, nodes: NodeTable, scores: Vector) -> int | None:
        return reducers.first_answer(self.hooks("best_node"), None, task, nodes, scores)

    # -- what happens: the ledger tells ------------------------------------------------------------

    def on_allocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        reducers.tell_all(self.hooks("on_allocate"), tasks, rows)

    def on_deallocate(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        reducers.tell_all(self.hooks("on_deallocate"), tasks, rows)

    def reserves(self, task: Task) -> bool:
        return bool(self._reserving_for(task))

    def reserve(self, task: Task, row: int) -> Mapping[str, str] | Rejection:
        """All reserve, or none does; the annotations of all are merged."""
        annotations: dict[str, str] = {}
        done: list[Plugin] = []
        for plugin in self._reserving_for(task):
            answer = plugin.reserve(task, row)
            if isinstance(answer, Rejection):
                for earlier in reversed(done):
                    earlier.release(task, row)
                return answer.by(plugin.name)
            done.append(plugin)
            annotations.update(answer)
        return annotations

    def release(self, task: Task, row: int) -> None:
        for plugin in reversed(self._reserving_for(task)):
            plugin.release(task, row)

    def claims(self, task: Task) -> tuple[ClaimVolume, ...]:
        """What has to be settled about a task's volumes before it is bound."""
        reserving = self._reserving_for(task)
        return tuple(claim for plugin in reserving for claim in plugin.claims(task)) if reserving else ()

    def _reserving_for(self, task: Task) -> list[Plugin]:
        found = self._reserving.get(task.shape)
        if found is None:
            found = [plugin for plugin in self._reservers if plugin.reserves(task)]
            self._reserving[task.shape] = found
        return found

    # -- victims -----------------------------------------------------------------------------------

    def victims(self, hunt: Hunt, candidates: Sequence[Task], *, first_tier: bool = False) -> list[Task]:
        """Who may be evicted: first everybody's vetoes, then the vote of the tiers. Keeps the order given.

        With `first_tier`, only the first tier that votes is asked: whom it allows, no later tier is asked about.
        """
        vetoes, tiers, first = self._voters(VOTES[hunt.purpose])
        left = reducers.sieve(vetoes, hunt, candidates)
        if not left:
            return []
        return reducers.tiered_intersection(first if first_tier else tiers, hunt, left)

    def _voters(self, vote: str) -> tuple[list[Ask], Tiers, Tiers]:
        """Who has a veto, who votes, and the first of these tiers."""
        found = self._voting.get(vote)
        if found is None:
            vetoes: list[Ask] = [p.filter_victims for p in self._protectors if vote not in self._disabled[p]]
            tiers = self.hooks_by_tier(vote)
            found = self._voting[vote] = (vetoes, tiers, [tier for tier in tiers if tier][:1])
        return found

    def impartial(self, purpose: Purpose) -> bool:
        """Whether nobody who decides about victims in the first place weighs what the taker holds already."""
        known = self._impartial.get(purpose)
        if known is None:
            vote = VOTES[purpose]
            voting = ([plugin for plugin in tier if self._answers(plugin, vote)] for tier in self.tiers)
            deciding = [*next((tier for tier in voting if tier), ()), *self._protectors]
            known = self._impartial[purpose] = not any(plugin.weighs_taker for plugin in deciding)
        return known

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        return reducers.tiered_union(self.hooks_by_tier("victim_tasks"), candidates)

"""Plans: what the scheduler would do with jobs that are created or scaled, or with another configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from volcano.analysis.explain.case import Case
from volcano.analysis.plan.config_plan import ConfigPlan, config_plan
from volcano.analysis.plan.new_jobs import InvalidManifest, NewObjects, new_objects
from volcano.analysis.plan.plan import PlannedJob, Subject, plan
from volcano.analysis.plan.scaling import ScaleJob, ScalingError, scaled
from volcano.analysis.rerun.state import MissingRights
from volcano.base.clock import Clock
from volcano.embedded.admission import admission_options
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client
from volcano.scheduler.engine.config import Config
from volcano.services.cluster_state import DEFAULT_SCHEDULER, read_case
from volcano.services.errors import InvalidInput, Rejected, Unreachable
from volcano.services.objects import find


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to jobs, and what the plan does not take into account."""

    jobs: tuple[PlannedJob, ...]
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Whether all jobs would start now."""
        return all(job.starts for job in self.jobs)


async def plan_new(
    client: Client,
    clock: Clock,
    manifests: Sequence[Manifest],
    *,
    namespace: str,
    source: str = "",
    config: Config | None = None,
    allow_preempt: bool = False,
) -> Plan:
    """Plans jobs that do not exist yet, by the scheduler's configuration or another one. `namespace` is that of objects
    that name none, `source` says in messages where they are from."""
    case = await _read(client, clock, config)
    used = {(manifest["metadata"].get("namespace") or namespace) for manifest in manifests}
    found = _expanded(case, manifests, namespace, await _namespaces(client, used))
    if not found.jobs:
        raise Rejected(f"{source or 'the objects'}: there is no Job, PodGroup or Pod in this file")
    state = case.state.with_events(found.others) if found.others else case.state
    ignored = (f"{title} is not scheduled and has no part in the plan" for title in found.ignored)
    return Plan(plan(state, case.config, found.jobs, allow_preempt=allow_preempt), (*case.notes, *ignored))


async def plan_scaled(
    client: Client,
    clock: Clock,
    key: Key,
    replicas: int,
    *,
    task: str = "",
    config: Config | None = None,
    allow_preempt: bool = False,
) -> Plan:
    """Plans a job that exists with other replicas of a task, by default its only one."""
    case = await _read(client, clock, config)
    job = await find(client, JOB, key)
    try:
        wanted = ScaleJob(orjson.dumps(scaled(job, replicas, task)))
    except ScalingError as error:
        raise InvalidInput(str(error)) from None
    uid = f"{key}-{job['metadata']['uid']}"
    if case.state.group(uid) is None:
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
        raise Rejected(f"job {key} is {phase} and has no PodGroup; plan a new one with -f")
    subject = Subject(uid, f"Job {key} with {replicas} replicas", wanted, whole=True)
    return Plan(plan(case.state, case.config, [subject], allow_preempt=allow_preempt), case.notes)


async def plan_config(client: Client, clock: Clock, new: Config) -> ConfigPlan:
    """What another configuration would do now, compared with that of the scheduler."""
    case = await _read(client, clock)
    return replace(config_plan(case.state, case.config, new), notes=case.notes)


async def _read(client: Client, clock: Clock, config: Config | None = None) -> Case:
    try:
        return await read_case(client, clock, config, absent="the plan does not take them into account")
    except MissingRights as error:
        raise Unreachable(f"a plan needs the objects that the scheduler reads, and {error}") from None


def _expanded(
    case: Case, manifests: Sequence[Manifest], namespace: str, namespaces: Mapping[str, Manifest]
) -> NewObjects:
    try:
        return new_objects(
            manifests,
            case.state,
            namespace=namespace,
            options=admission_options(),
            namespaces=namespaces,
            serves_default=case.serves(DEFAULT_SCHEDULER),
        )
    except InvalidManifest as error:
        raise Rejected(str(error)) from None


async def _namespaces(client: Client, used: set[str]) -> Mapping[str, Manifest]:
    """The namespaces that may be read: their annotations choose queues."""
    found = {}
    for name in sorted(used):
        try:
            found[name] = await client.get(NAMESPACE, Key("", name))
        except ApiError:
            continue
    return found

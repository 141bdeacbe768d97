"""Reads what explanations and plans are computed from: the state of the cluster and the scheduler's configuration."""

from volcano.analysis.explain.case import Case
from volcano.analysis.rerun.live_config import read_config, read_options
from volcano.analysis.rerun.state import ClusterState, MissingRights
from volcano.base.clock import Clock
from volcano.kube.client.protocol import Client
from volcano.scheduler.engine.config import Config
from volcano.services.errors import Unreachable

DEFAULT_SCHEDULER = "default-scheduler"


async def read_case(
    client: Client,
    clock: Clock,
    config: Config | None = None,
    *,
    absent: str = "they are taken as absent",
) -> Case:
    """Lists the cluster, and its configuration where none is given. Notes say in what the scheduler of the cluster may
    differ; `absent` ends that about objects that may not be listed. Raises MissingRights."""
    notes = []
    if config is None:
        live = await read_config(client)
        config = live.config
        notes += [live.note] if live.note else []
    options = await read_options(client)
    state = await ClusterState.read(client, clock, options, config=config)
    if state.not_listed:
        kinds = ", ".join(kind.plural for kind in state.not_listed)
        notes.append(f"you may not list {kinds}; {absent}")
    schedulers = (*options.scheduler_names, *((DEFAULT_SCHEDULER,) if options.serve_default else ()))
    return Case(state, config, schedulers, lambda: clock.now().monotonic, tuple(notes))


async def read_whole_case(client: Client, clock: Clock) -> Case:
    """As `read_case`, where nothing can be said without the rights. Raises Unreachable."""
    try:
        return await read_case(client, clock)
    except MissingRights as error:
        raise Unreachable(str(error)) from None

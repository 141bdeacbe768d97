"""`vc-scheduler`: the scheduler for a Kubernetes API server, or the replay of a saved snapshot."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from volcano.base.clock import SystemClock
from volcano.base.log import Log
from volcano.base.os_errors import explain_os_error
from volcano.cli.program_parser import ProgramParser, examples
from volcano.cmd.feature_gates import BUDGETS, PRIORITIES, TOPOLOGIES, add_gates_flag
from volcano.component import process
from volcano.kube.api import quantity
from volcano.kube.api.kinds import NUMATOPOLOGY, POD_DISRUPTION_BUDGET, PRIORITY_CLASS, Kind
from volcano.scheduler.config_source import ConfigSource, FileSource
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import PRESETS, ConfigError, parse, shipped
from volcano.scheduler.health import ERRORS, WARNINGS
from volcano.scheduler.history.cycle_history import MEMORY_BYTES, CycleHistory
from volcano.scheduler.history.endpoint import PATH, respond
from volcano.scheduler.history.segments import Segments
from volcano.scheduler.inputs import Readers
from volcano.scheduler.loop import Scheduler, SchedulerContext
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.plugins.extender import HttpPort
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.report.summary import report
from volcano.scheduler.snapshot_file import SnapshotError, load, save
from volcano.scheduler.usage_history import recorded_by

log = Log("vc-scheduler")

NAME = "vc-scheduler"
LEAST_HISTORY = 64 * 1024  # bytes
IDLE_COLLECTION = 30.0  # seconds between full garbage collections, which run between cycles
# Volcano flags without an equivalent here: there are no worker threads, and all nodes are evaluated.
ACCEPTED = {
    "--resync-period": "0",
    "--minimum-feasible-nodes": "100",
    "--minimum-percentage-nodes-to-find": "5",
    "--percentage-nodes-to-find": "0",
    "--node-worker-threads": "20",
    "--gate-removal-worker-num": "5",
    "--resource-sync-timeout": "60s",
    "--csi-storage": "true",
    "--enable-pprof": "false",
    "--cache-dumper": "true",
    "--disable-default-scheduler-config": "false",
    "--plugins-dir": "",
    "--scheduler-sharding-mode": "none",
    "--scheduler-sharding-name": "volcano",
}
NOT_BUILT = {"--scheduler-sharding-mode": ("none",), "--plugins-dir": ("",)}
REASONS = {
    "--scheduler-sharding-mode": "one scheduler serves all nodes here, NodeShards have no effect",
    "--plugins-dir": "plugins are Python packages, see docs/plugins.md",
}
MULTIPLE = "MULTI_SCHEDULER_ENABLE"  # environment variable that divides jobs among schedulers in Volcano


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    for flag, allowed in NOT_BUILT.items():
        value = getattr(parsed, flag[2:].replace("-", "_"))
        if value not in allowed:
            parser.fail(f"{flag}={value} is not provided: {REASONS[flag]}; leave it out")
    if os.environ.get(MULTIPLE, "").lower() == "true":
        parser.fail(
            f"{MULTIPLE}=true is not provided: one scheduler serves all jobs here, replicas elect a leader; unset it"
        )
    if parsed.replay:
        return _replay(parsed.replay, parsed.scheduler_conf)
    return process.run_until_signal(_run(parsed), name=NAME, verbosity=parsed.v)


def build_parser() -> ProgramParser:
    parser = ProgramParser(
        prog=NAME,
        description="Schedule pods of a Kubernetes cluster, or a saved snapshot.",
        epilog=examples(
            "vc-scheduler --kubeconfig ~/.kube/config --scheduler-conf volcano-scheduler.conf",
            "vc-scheduler --kubeconfig ~/.kube/config --leader-elect=false --scheduler-conf preempt",
            "vc-scheduler --replay /tmp/snapshot-1767225600.json.gz",
        ),
    )
    process.add_client_flags(parser, qps=2000, burst=2000)
    process.add_election_flags(parser, name="volcano")
    process.add_serving_flags(parser, metrics_address=":8080")
    process.add_ignored_flags(parser)
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="names of the schedulers whose pods are scheduled; repeatable (default volcano)",
    )
    parser.add_argument(
        "--scheduler-conf",
        default="",
        metavar="NAME|FILE",
        help="scheduler configuration: a preset (default, preempt or reservation) or a file (default: default)",
    )
    parser.add_argument(
        "--schedule-period",
        type=process.duration,
        default=1.0,
        metavar="DURATION",
        help="longest time between scheduling cycles (default 1s)",
    )
    parser.add_argument(
        "--default-queue",
        default="default",
        metavar="NAME",
        help="queue of jobs that name none (default `default`)",
    )
    parser.add_argument(
        "--cache-dump-dir",
        type=Path,
        default=Path("/tmp"),
        metavar="DIR",
        help="directory of the snapshot that SIGUSR1 saves (default /tmp)",
    )
    parser.add_argument(
        "--cycle-history",
        type=history_size,
        default=MEMORY_BYTES,
        metavar="BYTES",
        help="size of the record of the last cycles, which `vcctl explain` reads; 0 keeps none (default 4Mi)",
    )
    parser.add_argument(
        "--cycle-history-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="directory in which the record of the last cycles outlives the scheduler (default: memory only)",
    )
    parser.add_argument(
        "--replay",
        type=Path,
        default=None,
        metavar="FILE",
        help="schedule a saved snapshot, print the decisions and exit",
    )
    for flag, default in ACCEPTED.items():
        parser.add_argument(
            flag,
            nargs="?",
            const="true",
            default=default,
            help="accepted for compatibility with Volcano, without effect",
        )
    parser.add_argument(
        "--node-selector",
        action="append",
        default=[],
        metavar="LABEL:VALUE",
        help="schedule only to nodes with one of these labels; repeatable",
    )
    parser.add_argument(
        "--ignored-provisioners",
        action="append",
        default=[],
        metavar="NAMES",
        help="provisioners whose volumes are not counted against the limits of nodes",
    )
    parser.add_argument(
        "--priority-class",
        nargs="?",
        const="true",
        default="true",
        metavar="BOOL",
        help="use the priorities of PriorityClasses (default true)",
    )
    process.add_switch(
        parser, "--scheduled-events", default=False, help="record an event for each pod that is bound"
    )
    add_gates_flag(
        parser,
        "SchedulingGatesQueueAdmission=true removes the gates of pods whose queue admits them; "
        "PodDisruptionBudgetsSupport=false, PriorityClass=false and ResourceTopology=false ignore those objects",
    )
    return parser


async def _run(arguments: argparse.Namespace) -> None:
    clock, metrics = SystemClock(), SchedulerMetrics()
    source = _source(arguments)
    async with AsyncExitStack() as stack:
        client = process.client_of(arguments, clock, user_agent=NAME)
        stack.push_async_callback(client.close)
        history = _history(arguments)
        scheduler = Scheduler(
            client,
            source,
            clock,
            _options(arguments, seed=int(clock.now().wall)),
            SchedulerContext(
                metrics, history, Readers(usage=recorded_by(client.raw)), _Collector(clock), _freeze
            ),
        )
        leading = asyncio.Event()  # a standby replica has listed nothing and is ready

        async def work() -> None:
            leading.set()
            await scheduler.run()

        pages = {PATH: partial(respond, history)}
        await process.serve(arguments, stack, health_of(scheduler, leading), metrics.registry, pages)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _dump, scheduler, arguments.cache_dump_dir, clock)
        await process.lead_or_run(arguments, client, clock, work)


def _history(arguments: argparse.Namespace) -> CycleHistory:
    size, directory = arguments.cycle_history, arguments.cycle_history_dir
    return CycleHistory(size, Segments(directory, size) if directory is not None and size else None)


def history_size(text: str) -> int:
    """Bytes of the ring buffer: a quantity such as 4Mi, or 0."""
    try:
        size = int(quantity.units(text))
    except ValueError:
        size = -1
    if size < 0 or 0 < size < LEAST_HISTORY:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0 nor at least 64Ki, such as 4Mi")
    return size


def health_of(scheduler: Scheduler, leading: asyncio.Event) -> process.Health:
    """Checks behind /readyz. What concerns single jobs or parts of the configuration is a warning."""
    return process.Health(
        ready={
            **{name: partial(check, scheduler) for name, check in ERRORS.items()},
            "caches": lambda: (
                "waiting for the cluster to be listed" if leading.is_set() and not scheduler.synced else ""
            ),
        },
        warnings={name: partial(check, scheduler) for name, check in WARNINGS.items()},
    )


def _source(arguments: argparse.Namespace) -> ConfigSource:
    ports, enabled = {"extender": HttpPort()}, arguments.gates
    if arguments.scheduler_conf in PRESETS:
        preset: str = arguments.scheduler_conf
        return ConfigSource(shipped(PRESETS[preset]), preset, ports=ports, features=enabled)
    if arguments.scheduler_conf:
        return FileSource(Path(arguments.scheduler_conf), ports=ports, features=enabled)
    return ConfigSource(ports=ports, features=enabled)


def _options(arguments: argparse.Namespace, seed: int) -> SchedulerOptions:
    return SchedulerOptions(
        scheduler_names=tuple(arguments.scheduler_name) or ("volcano",),
        default_queue=arguments.default_queue,
        node_selector=label_pairs(arguments.node_selector),
        ignored_provisioners=tuple(
            name for given in arguments.ignored_provisioners for name in given.split(",")
        ),
        period=arguments.schedule_period,
        seed=seed,
        scheduled_events=arguments.scheduled_events,
        ignored_kinds=_ignored_kinds(arguments),
    )


# Kinds that are watched only if a feature gate is on.
GATED_KINDS = {BUDGETS: POD_DISRUPTION_BUDGET, PRIORITIES: PRIORITY_CLASS, TOPOLOGIES: NUMATOPOLOGY}


def _ignored_kinds(arguments: argparse.Namespace) -> frozenset[Kind]:
    ignored = {kind for gate, kind in GATED_KINDS.items() if gate not in arguments.gates}
    if arguments.priority_class.lower() in ("false", "f", "0"):
        ignored.add(PRIORITY_CLASS)
    return frozenset(ignored)


def label_pairs(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`label:value` pairs; pairs without a value are dropped, as in Volcano."""
    pairs = (text.strip().partition(":") for text in given)
    return tuple(
        (label.strip(), value.strip()) for label, _, value in pairs if label.strip() and value.strip()
    )


def _freeze() -> None:
    """Excludes the objects of the first list from garbage collection: they are long-lived."""
    gc.collect()
    gc.freeze()
    gc.disable()


class _Collector:
    """Runs garbage collection between cycles only."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._last = clock.now().monotonic

    def __call__(self) -> None:
        now = self._clock.now().monotonic
        if now - self._last > IDLE_COLLECTION:
            gc.collect()
            self._last = now


def _dump(scheduler: Scheduler, directory: Path, clock: SystemClock) -> None:
    snapshot, config = scheduler.cycles.last_snapshot, scheduler.source.current
    if snapshot is None or config is None:
        log.info("no snapshot to save yet")
        return
    path = directory / f"snapshot-{int(clock.now().wall)}.json.gz"
    path.write_bytes(save(snapshot, config.text))
    log.info("snapshot saved", file=path)


def _text(conf: str) -> str:
    return shipped(PRESETS[conf]) if conf in PRESETS else Path(conf).read_text()


def _replay(path: Path, conf: str) -> int:
    """Schedules a saved snapshot and prints the decisions."""
    try:
        snapshot, text = load(path.read_bytes())
        config = parse(_text(conf) if conf else text, conf or str(path))
    except OSError as error:
        print(f"{NAME}: {explain_os_error(error, str(path))}", file=sys.stderr)
        return 1
    except (SnapshotError, ConfigError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for line in report(schedule(snapshot, config), snapshot):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

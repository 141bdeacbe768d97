"""`vc-scheduler`: the scheduler for a Kubernetes API server, or the replay of a saved snapshot."""

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from volcano.clock import SystemClock
from volcano.entry import process
from volcano.log import Log
from volcano.scheduler.config_source import ConfigSource, FileSource
from volcano.scheduler.cycle import schedule
from volcano.scheduler.engine.config import ConfigError, parse
from volcano.scheduler.loop import Scheduler
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.plugins.extender.http import HttpPort
from volcano.scheduler.report.metrics import SchedulerMetrics
from volcano.scheduler.report.summary import report, skipped_jobs
from volcano.scheduler.snapshot_file import SnapshotError, load, save

log = Log("vc-scheduler")

NAME = "vc-scheduler"
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
    "--priority-class": "true",
    "--csi-storage": "true",
    "--enable-pprof": "false",
    "--cache-dumper": "true",
    "--disable-default-scheduler-config": "false",
    "--plugins-dir": "",
    "--scheduler-sharding-mode": "none",
    "--scheduler-sharding-name": "volcano",
}
NOT_BUILT = {"--scheduler-sharding-mode": ("none",), "--plugins-dir": ("",)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    for flag, allowed in NOT_BUILT.items():
        value = getattr(parsed, flag[2:].replace("-", "_"))
        if value not in allowed:
            parser.error(f"{flag}={value} is not available yet; leave it out")
    if parsed.replay:
        return _replay(parsed.replay, parsed.scheduler_conf)
    return process.run_until_signal(_run(parsed), name=NAME, verbosity=parsed.v)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__)
    process.add_client_flags(parser, qps=2000, burst=2000)
    process.add_election_flags(parser, name="volcano")
    process.add_serving_flags(parser, metrics_address=":8080")
    process.add_ignored_flags(parser)
    parser.add_argument(
        "--scheduler-name", action="append", default=[], help="schedulers whose pods are ours"
    )
    parser.add_argument(
        "--scheduler-conf", default="", help="the configuration file (default: the shipped one)"
    )
    parser.add_argument(
        "--schedule-period", type=process.duration, default=1.0, help="the longest pause between cycles"
    )
    parser.add_argument("--default-queue", default="default", help="the queue of jobs that name none")
    parser.add_argument("--cache-dump-dir", type=Path, default=Path("/tmp"), help="where snapshots are saved")
    parser.add_argument("--replay", type=Path, default=None, help="schedule a saved snapshot, print and end")
    for flag, default in ACCEPTED.items():
        parser.add_argument(
            flag, nargs="?", const="true", default=default, help="accepted for Volcano's sake"
        )
    parser.add_argument(
        "--node-selector", action="append", default=[], help="label:value; only nodes that have one of these"
    )
    parser.add_argument(
        "--ignored-provisioners",
        action="append",
        default=[],
        help="provisioners whose volumes are not counted",
    )
    process.add_switch(
        parser, "--scheduled-events", default=False, help="record an event for each pod that is bound"
    )
    parser.add_argument(
        "--feature-gates", default="", help="SchedulingGatesQueueAdmission=true takes gates off pods"
    )
    return parser


async def _run(arguments: argparse.Namespace) -> None:
    clock, metrics = SystemClock(), SchedulerMetrics()
    source = _source(arguments)
    async with AsyncExitStack() as stack:
        client = process.client_of(arguments, clock, user_agent=NAME)
        stack.push_async_callback(client.close)
        scheduler = Scheduler(
            client,
            source,
            clock,
            _options(arguments, seed=int(clock.now().wall)),
            metrics=metrics,
            between_cycles=_Collector(clock),
            on_ready=_freeze,
        )
        leading = asyncio.Event()  # a standby replica has listed nothing and is ready

        async def work() -> None:
            leading.set()
            await scheduler.run()

        await process.serve(arguments, stack, health_of(scheduler, leading), metrics.registry)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _dump, scheduler, arguments.cache_dump_dir, clock)
        await process.lead_or_run(arguments, client, clock, work)


def health_of(scheduler: Scheduler, leading: asyncio.Event) -> process.Health:
    """Checks behind /readyz. What concerns single jobs or parts of the configuration is a warning."""
    source = scheduler.source
    return process.Health(
        ready={
            "config": lambda: source.error if source.current is None else "",
            "plugins": lambda: "; ".join(scheduler.last_outcome.errors),
            "caches": lambda: (
                "waiting for the cluster to be listed" if leading.is_set() and not scheduler.synced else ""
            ),
        },
        warnings={
            "config": lambda: source.warning,
            "jobs": lambda: skipped_jobs(scheduler.last_outcome.faults),
        },
    )


def _source(arguments: argparse.Namespace) -> ConfigSource:
    ports, enabled = {"extender": HttpPort()}, features(arguments.feature_gates)
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
    )


def label_pairs(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`label:value` pairs; pairs without a value are dropped, as in Volcano."""
    pairs = (text.strip().partition(":") for text in given)
    return tuple(
        (label.strip(), value.strip()) for label, _, value in pairs if label.strip() and value.strip()
    )


def features(given: str) -> frozenset[str]:
    """Feature gates enabled in `A=true,B=false`."""
    pairs = (gate.partition("=") for gate in given.split(","))
    return frozenset(name.strip() for name, _, value in pairs if value.strip().lower() == "true")


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
    snapshot, config = scheduler.last_snapshot, scheduler.source.current
    if snapshot is None or config is None:
        log.info("no snapshot to save yet")
        return
    path = directory / f"snapshot-{int(clock.now().wall)}.json.gz"
    path.write_bytes(save(snapshot, config.text))
    log.info("snapshot saved", file=path)


def _replay(path: Path, conf: str) -> int:
    """Schedules a saved snapshot and prints the decisions."""
    try:
        snapshot, text = load(path.read_bytes())
        config = parse(Path(conf).read_text() if conf else text, conf or str(path))
    except (OSError, SnapshotError, ConfigError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    for line in report(schedule(snapshot, config), snapshot):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

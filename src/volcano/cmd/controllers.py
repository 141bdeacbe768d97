"""`vc-controller-manager`: controllers for a Kubernetes API server."""

import argparse
import asyncio
import os
import random
import string
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack

from volcano.accounting.periods import retention_of
from volcano.accounting.recorder.recorder import Recorder
from volcano.accounting.service.api_group import ApiGroup
from volcano.accounting.service.api_server import parse_service, serving
from volcano.accounting.service.budget_controller import BudgetController
from volcano.accounting.service.service import AccountingOptions, AccountingService
from volcano.base.clock import Clock, SystemClock
from volcano.base.metrics import CollectorRegistry
from volcano.cli.program_parser import ProgramParser, examples
from volcano.cli.volcano.notifications import add_notification_flags, notification_problem, settings_of
from volcano.cmd.feature_gates import COMMANDS, CRON_JOBS, JOBS, WORKLOADS, add_gates_flag, parse_gates
from volcano.component import process
from volcano.controllers.colocation import ColocationController
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.hypernode.controller import HyperNodeController
from volcano.controllers.job.controller import JobController
from volcano.controllers.jobflow import JobFlowController, JobTemplateController
from volcano.controllers.notifications.controller import NotificationController
from volcano.controllers.notifications.service import run_notifications
from volcano.controllers.notifications.targets import Targets
from volcano.controllers.podgroup import UNGATED_WORKLOADS, PodGroupController
from volcano.controllers.podgroup import WORKLOADS as ALL_WORKLOADS
from volcano.controllers.queue import QueueController
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.controller import Controller
from volcano.kube.controllers.runner import ControllerRunner
from volcano.kube.controllers.write_loops import WriteLoopMetrics
from volcano.kube.informers.shared_informers import SharedInformerFactory

NAME = "vc-controller-manager"
# Volcano controllers that are not provided: enabling one by name is an error, disabling it is not.
NOT_BUILT = {
    "sharding-controller": "it divides nodes among several schedulers, and one scheduler serves all nodes here",
}
Make = Callable[[argparse.Namespace, CollectorRegistry], Controller]
CONTROLLERS: Mapping[str, Make] = {
    "job-controller": lambda arguments, registry: JobController(
        scheduler_name=arguments.scheduler_name[0],
        registry=registry,
        delete_finished=is_enabled("gc-controller", arguments.controllers),
    ),
    "queue-controller": lambda arguments, registry: QueueController(
        registry, commands=COMMANDS in arguments.gates
    ),
    "pg-controller": lambda arguments, registry: PodGroupController(
        scheduler_names=tuple(arguments.scheduler_name),
        inherit_annotations=arguments.inherit_owner_annotations,
        workloads=ALL_WORKLOADS if WORKLOADS in arguments.gates else UNGATED_WORKLOADS,
    ),
    "jobflow-controller": lambda arguments, registry: JobFlowController(registry),
    "jobtemplate-controller": lambda arguments, registry: JobTemplateController(),
    "cronjob-controller": lambda arguments, registry: CronJobController(),
    "hyperNode-controller": lambda arguments, registry: HyperNodeController(
        lambda: "".join(random.choices(string.ascii_lowercase + string.digits, k=5)),
        namespace=os.environ.get("KUBE_POD_NAMESPACE") or SYSTEM_NAMESPACE,
        release=os.environ.get("HELM_RELEASE_NAME") or "volcano",
    ),
    "colocation-config-controller": lambda arguments, registry: ColocationController(),
}
# Controllers that a feature gate disables.
GATES: Mapping[str, tuple[str, ...]] = {"job-controller": (JOBS,), "cronjob-controller": (JOBS, CRON_JOBS)}
# Deletion of finished jobs is part of the job controller, and notifications have an outbox of their own; the names only
# enable them.
SWITCHES = ("gc-controller", NotificationController.name)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse(arguments)
    return process.run_until_signal(run(parsed, NAME), name=NAME, verbosity=parsed.v)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses and validates the flags. Exits with a message if they are invalid."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    parsed.scheduler_name = parsed.scheduler_name or ["volcano"]
    parsed.controllers = [name.strip() for name in parsed.controllers.split(",") if name.strip()]
    problem = check_controllers(parsed.controllers, parsed.gates) or notification_problem(parsed)
    if problem:
        parser.fail(problem)
    return parsed


def build_parser() -> ProgramParser:
    parser = ProgramParser(
        prog=NAME,
        description="Run the controllers of Volcano's kinds for a Kubernetes cluster.",
        epilog=examples(
            "vc-controller-manager --kubeconfig ~/.kube/config",
            "vc-controller-manager --kubeconfig ~/.kube/config --controllers '*,-hyperNode-controller'",
        ),
    )
    process.add_client_flags(parser, qps=2000, burst=2000)
    process.add_election_flags(parser, name=NAME)
    process.add_serving_flags(parser, metrics_address=":8081")
    parser.add_argument(
        "--controllers",
        default="*,-sharding-controller",
        metavar="NAMES",
        help="controllers to run: names, -name to leave one out, * for all",
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="names of the schedulers whose pods are scheduled; repeatable (default volcano)",
    )
    process.add_switch(
        parser,
        "--inherit-owner-annotations",
        default=True,
        help="copy the annotations of owners to PodGroups (default true)",
    )
    workers = "accepted for compatibility with Volcano, without effect: objects are processed in parallel"
    for name, default in (
        ("", 3),
        ("-for-cronjob", 3),
        ("-for-podgroup", 5),
        ("-for-queue", 5),
        ("-for-gc", 1),
    ):
        parser.add_argument(f"--worker-threads{name}", type=int, default=default, metavar="N", help=workers)
    parser.add_argument(
        "--max-requeue-num",
        type=int,
        default=15,
        metavar="N",
        help="accepted for compatibility with Volcano, without effect",
    )
    add_gates_flag(
        parser,
        "VolcanoJobSupport=false and CronVolcanoJobSupport=false disable controllers, WorkLoadSupport=false "
        "PodGroups that follow their ReplicaSets and StatefulSets, QueueCommandSync=false Commands to queues",
    )
    for name in (
        "scheduler-configs",
        "shard-sync-period",
        "sharding-configmap",
        "sharding-configmap-namespace",
    ):
        # flag of a controller that is not provided
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    process.add_switch(parser, "--enable-node-event-trigger", default=True, help=argparse.SUPPRESS)
    _add_accounting_flags(parser)
    add_notification_flags(parser)
    process.add_ignored_flags(parser)
    return parser


def _add_accounting_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accounting-database",
        default="",
        metavar="URL",
        help="record pod runs in this database: postgresql://user@host/name, with the password in the environment "
        "variable PGPASSWORD, or sqlite:///file (default: no accounting)",
    )
    parser.add_argument(
        "--accounting-retention",
        type=process.typed(retention_of),
        default="400d",
        metavar="DURATION",
        help="time for which each pod run is kept; after that, sums of months are (default 400d)",
    )
    parser.add_argument(
        "--accounting-address",
        default=":8446",
        metavar="ADDRESS",
        help="address of the API group accounting.volcano.sh (default :8446)",
    )
    parser.add_argument(
        "--accounting-service",
        type=process.typed(parse_service),
        default="",
        metavar="NAMESPACE/NAME",
        help="Service through which the API server reaches this address, with :PORT unless that is 443: the group is "
        "registered with it",
    )


def check_controllers(wanted: Sequence[str], gates: Collection[str] = parse_gates("")) -> str:
    """Error in a list of controllers; empty if it is valid."""
    known = [*CONTROLLERS, *SWITCHES, *NOT_BUILT]
    plain = [entry.lstrip("+-") for entry in wanted if entry != "*"]
    for name in plain:
        if name not in known:
            return f"--controllers: {name!r} is unknown; choose from {', '.join(known)}"
        if plain.count(name) > 1:
            return f"--controllers: {name!r} is listed twice; leave one out"
    for entry in wanted:
        if entry.lstrip("+") in NOT_BUILT:
            return f"--controllers: {entry} is not provided: {NOT_BUILT[entry.lstrip('+')]}; leave it out"
    if not enabled_controllers(wanted, gates) and not runs_notifications(wanted, gates):
        given = ",".join(wanted)
        return (
            f"--controllers={given}: no controller to run; name one of {', '.join(CONTROLLERS)}, or * for all"
        )
    return ""


def enabled_controllers(wanted: Sequence[str], gates: Collection[str]) -> list[str]:
    """The controllers to run, without those that a feature gate disables."""
    return [
        name
        for name in CONTROLLERS
        if is_enabled(name, wanted) and all(gate in gates for gate in GATES.get(name, ()))
    ]


def runs_notifications(wanted: Sequence[str], gates: Collection[str]) -> bool:
    """Whether to run the notification controller: there are jobs, and it is enabled."""
    return JOBS in gates and is_enabled(NotificationController.name, wanted)


def is_enabled(name: str, wanted: Sequence[str]) -> bool:
    """Whether a list such as `*,-gc-controller` enables a controller."""
    for entry in wanted:
        if entry.lstrip("+-") == name:
            return not entry.startswith("-")
    return "*" in wanted


def _accounting(
    arguments: argparse.Namespace, clock: Clock, registry: CollectorRegistry
) -> AccountingService | None:
    """The service that the flags ask for; None without a database."""
    if not arguments.accounting_database:
        return None
    options = AccountingOptions(
        arguments.accounting_database, arguments.accounting_retention, tuple(arguments.scheduler_name)
    )
    return AccountingService(options, clock, lambda: registry)


async def run(arguments: argparse.Namespace, name: str) -> None:
    """Runs the controllers of the flags until cancelled, for the program `name`."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        client = process.client_of(arguments, clock, user_agent=name)
        stack.push_async_callback(client.close)
        election = process.election_client(arguments, clock, stack, user_agent=name)
        await manage(arguments, client, clock, election=election)


async def manage(
    arguments: argparse.Namespace, client: Client, clock: Clock, *, election: Client | None = None
) -> None:
    """Serves health and metrics, takes part in leader election and runs the controllers while leading."""
    registry = CollectorRegistry()
    write_loops = WriteLoopMetrics(registry)
    controllers = [
        CONTROLLERS[name](arguments, registry)
        for name in enabled_controllers(arguments.controllers, arguments.gates)
    ]
    accounting = _accounting(arguments, clock, registry)
    if accounting is not None:
        controllers.append(BudgetController(accounting.budget_usage.of))
    waiting: set[str] = set()  # controllers that are not ready yet; a standby replica is ready
    health = process.Health(
        ready={"caches": lambda: f"waiting for {', '.join(sorted(waiting))}" if waiting else ""}
    )

    async def work() -> None:
        informers = SharedInformerFactory(client, clock)
        waiting.update(controller.name for controller in controllers)
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                ready = _marker(waiting, controller.name)
                runner = ControllerRunner(
                    controller,
                    client,
                    clock,
                    on_ready=ready,
                    informers=informers,
                    write_loops=write_loops,
                )
                group.create_task(runner.run())
            if runs_notifications(arguments.controllers, arguments.gates):
                waiting.add(NotificationController.name)
                ready = _marker(waiting, NotificationController.name)
                notifications = run_notifications(
                    client,
                    clock,
                    informers,
                    Targets(arguments.notify_allow),
                    registry,
                    settings=settings_of(arguments),
                    write_loops=write_loops,
                    on_ready=ready,
                )
                group.create_task(notifications)
            if accounting is not None:
                waiting.add(Recorder.name)
                ready = _marker(waiting, Recorder.name)
                group.create_task(accounting.run(client, informers, ready))

    async with AsyncExitStack() as stack:
        await process.serve(arguments, stack, health, registry)
        if accounting is not None:
            stack.push_async_callback(accounting.close)
            if (service := arguments.accounting_service) is not None:
                group = ApiGroup(accounting)
                address = arguments.accounting_address
                await stack.enter_async_context(serving(address, service, client, clock, group))
        await process.lead_or_run(arguments, election or client, clock, work)


def _marker(waiting: set[str], name: str) -> Callable[[], None]:
    return lambda: waiting.discard(name)


if __name__ == "__main__":
    sys.exit(main())

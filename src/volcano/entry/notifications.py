"""Notifications of `vc-controller-manager`: its flags, and the controller with its outbox."""

import argparse
import asyncio
from collections.abc import Callable

from volcano.clock import Clock
from volcano.controllers.notifications.controller import NotificationController
from volcano.controllers.notifications.outbox import DeliveryQueue, OutboxSettings
from volcano.controllers.notifications.targets import Targets
from volcano.kube.client import Client
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.informers import SharedInformerFactory
from volcano.kube.write_loops import WriteLoopMetrics


def add_notification_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--notify-allow",
        action="append",
        default=[],
        metavar="TARGET",
        help="send notifications of jobs (annotation volcano.sh/notify) only to TARGET, an address, network (CIDR), "
        "host name or `all`; repeatable (default: to public addresses)",
    )
    parser.add_argument(
        "--notify-source",
        default="/volcano",
        metavar="TEXT",
        help="begin of the attribute `source` of notifications, different for each cluster (default /volcano)",
    )


def notification_problem(arguments: argparse.Namespace) -> str:
    """Error in the flags; empty if they are valid."""
    try:
        Targets(arguments.notify_allow)
    except ValueError as error:
        return f"--notify-allow: {error}"
    source: str = arguments.notify_source
    if not source or any(not "!" <= character <= "~" for character in source):
        return f"--notify-source: {source!r} is no URI reference; write such as /clusters/a"
    return ""


async def run_notifications(
    arguments: argparse.Namespace,
    client: Client,
    clock: Clock,
    informers: SharedInformerFactory,
    write_loops: WriteLoopMetrics,
    on_ready: Callable[[], None],
) -> None:
    """Runs the controller and its outbox until cancelled."""
    settings = OutboxSettings(source=arguments.notify_source)
    outbox = DeliveryQueue(client, clock, Targets(arguments.notify_allow), settings)
    runner = ControllerRunner(
        NotificationController(outbox),
        client,
        clock,
        on_ready=on_ready,
        informers=informers,
        write_loops=write_loops,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox.run())
        group.create_task(runner.run())

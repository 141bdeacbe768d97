"""Notifications in a program: the controller, and the outbox that sends what it finds."""

import asyncio
from collections.abc import Callable

from volcano.base.clock import Clock
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.notifications.controller import NotificationController
from volcano.controllers.notifications.metrics import NotificationMetrics
from volcano.controllers.notifications.outbox import DeliveryQueue, OutboxSettings
from volcano.controllers.notifications.targets import Targets
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.runner import ControllerRunner
from volcano.kube.controllers.write_loops import WriteLoopMetrics
from volcano.kube.informers.shared_informers import SharedInformerFactory


async def run_notifications(
    client: Client,
    clock: Clock,
    informers: SharedInformerFactory,
    targets: Targets,
    registry: CollectorRegistry,
    *,
    settings: OutboxSettings | None = None,
    write_loops: WriteLoopMetrics | None = None,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Runs both until cancelled, or until one fails."""
    outbox = DeliveryQueue(client, clock, targets, settings, NotificationMetrics(registry))
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

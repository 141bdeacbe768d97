"""The informer subscriptions of one controller, which follow its `watches` when they change."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from volcano.kube.client.protocol import Watch
from volcano.kube.controllers.controller import Controller, Reconciler
from volcano.kube.informers.reflector import BatchHandler
from volcano.kube.informers.shared_informers import EventHandler, SharedInformerFactory


@dataclass(slots=True)
class _Subscription:
    handler: EventHandler
    stack: ExitStack
    tasks: tuple[asyncio.Task[None], ...]

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.stack.close()


class Subscriptions:
    """Subscribes a controller to what it watches; `on_synced` is called whenever one of the watches has listed."""

    def __init__(
        self,
        informers: SharedInformerFactory,
        controller: Controller,
        handle: BatchHandler,
        on_synced: Callable[[], None],
    ) -> None:
        self._informers = informers
        self._controller = controller
        self._handle = handle
        self._on_synced = on_synced
        self._watches: Sequence[Watch] = ()  # as `update` has seen them last
        self._open: dict[Watch, _Subscription] = {}
        self._synced = False

    def are_outdated(self) -> bool:
        """Whether the controller has asked for other watches since `update`."""
        return self._controller.watches is not self._watches

    def update(self, group: asyncio.TaskGroup) -> bool:
        """Subscribes to new watches and unsubscribes from old ones; returns whether all have listed once.

        Tasks that wait for informers run in `group`: an informer that fails ends the group.
        """
        # Subscribing to an informer that runs already delivers its objects, which may ask for further watches.
        while (wanted := self._controller.watches) is not self._watches:
            before, self._watches = self._watches, wanted
            if tuple(before) == tuple(wanted):
                break
            self._synced = False
            for watch in self._open.keys() - set(wanted):
                self._unsubscribe(watch)
            for watch in wanted:
                if watch not in self._open:
                    self._subscribe(watch, group)
        if not self._synced:
            self._synced = all(subscription.handler.synced.is_set() for subscription in self._open.values())
        return self._synced

    def close(self) -> None:
        """Ends all subscriptions."""
        for subscription in self._open.values():
            subscription.close()
        self._open.clear()

    def _subscribe(self, watch: Watch, group: asyncio.TaskGroup) -> None:
        controller, stack = self._controller, ExitStack()
        owner_kinds = controller.owner_kinds.get(watch.kind) if isinstance(controller, Reconciler) else None
        handler = stack.enter_context(self._informers.add_batch_handler(watch, self._handle, owner_kinds))
        tasks = [group.create_task(handler.wait_stopped())]
        if not handler.synced.is_set():
            tasks.append(group.create_task(self._wait_until_synced(handler)))
        self._open[watch] = _Subscription(handler, stack, tuple(tasks))

    def _unsubscribe(self, watch: Watch) -> None:
        self._open.pop(watch).close()
        if isinstance(self._controller, Reconciler):
            self._controller.on_unsubscribed(watch)

    async def _wait_until_synced(self, handler: EventHandler) -> None:
        await handler.synced.wait()
        self._on_synced()

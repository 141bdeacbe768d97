"""Pod worker: executes the actions of `lifecycle` for one pod and records their results.

`sync` is a plain function, called when the pod, a container or the time has changed; an action that takes
time is a task that ends with another `sync`.
"""

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import ApiError
from volcano.kube.api.manifest import Manifest, is_deleting, uid_of, version_of
from volcano.nodes.kubelet import container_state as state
from volcano.nodes.kubelet import probe_state
from volcano.nodes.kubelet.container_state import (
    Container,
    ContainerRun,
    Stopping,
    Termination,
    Waiting,
    containers_of,
)
from volcano.nodes.kubelet.device_claims import FAILED_CLAIMS
from volcano.nodes.kubelet.pods import disk_usage, lifecycle
from volcano.nodes.kubelet.pods.adoption import STATUS_UNKNOWN, STATUS_UNKNOWN_MESSAGE, reset_sandbox
from volcano.nodes.kubelet.pods.context import PodWorkerContext
from volcano.nodes.kubelet.pods.lifecycle import PodState
from volcano.nodes.kubelet.pods.start import Starter
from volcano.nodes.kubelet.pods.status import full_name
from volcano.nodes.kubelet.pods.status_manager import StatusManager
from volcano.nodes.kubelet.pods.termination_message import termination_message
from volcano.nodes.kubelet.probes.handlers import HandlerResult
from volcano.nodes.kubelet.probes.prober import run_hook, run_probe, run_with_timeout
from volcano.nodes.kubelet.volumes.store import refresh_delay
from volcano.nodes.shim.specs import ContainerState, Failure

log = Log("kubelet")

MAX_SYNC_ROUNDS = 64  # limit of action rounds in one sync
RETRY_SECONDS = 10.0
SANDBOX_RETRY_SECONDS = 0.5
SIGNAL_RETRY_SECONDS = 1.0
NO_SANDBOX = "SandboxNotFound"
MEASURE_PAUSE_FACTOR = 20  # measuring may take this fraction (1/20) of the time
MOUNT_BACKOFF = Backoff(first=0.5, longest=122.0)
# Event reasons of image errors.
IMAGE_EVENTS = {
    "ErrImagePull": "Failed",
    "ImagePullBackOff": "BackOff",
    "ErrImageNeverPull": "ErrImageNeverPull",
    "InvalidImageName": "InspectFailed",
}
# Errors before a container exists, and errors that count as a failed attempt.
CREATE_FAILURES = frozenset(("CreateContainerConfigError", "CreateContainerError", *IMAGE_EVENTS))
START_FAILURES = frozenset(("ContainerCannotRun", "RunContainerError", "StartError"))


class PodWorker:
    """Runs one pod."""

    def __init__(self, context: PodWorkerContext, pod: Manifest, pod_state: PodState) -> None:
        self._context = context
        self.pod = pod
        self.pod_state = pod_state
        self.containers: lifecycle.Containers = containers_of(pod)
        self.uid = uid_of(pod)
        self.node: str = pod["spec"]["nodeName"]
        self._starter = Starter(context)
        self._status_manager = StatusManager(context, self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._early_exits: dict[str, ContainerState] = {}  # exits reported before their start returned
        self._mount_failures = 0
        self._refreshes = 0
        self._stopped = False

    # Events.

    def update_pod(self, pod: Manifest) -> None:
        """Takes over a changed pod."""
        if version_of(pod) < version_of(self.pod):
            return
        before, self.pod = self.pod, pod
        if pod["spec"] != before["spec"]:
            old, self.containers = self.containers, containers_of(pod)
            self._replace_images(old)
        self.sync()

    def on_container_exit(self, end: ContainerState) -> None:
        """Records the end of a container."""
        run = self.pod_state.run(end.name)
        if run.starting and end.attempt == run.attempt + 1:
            self._early_exits[end.name] = end
        elif run.running and run.attempt == end.attempt:
            self._record_exit(end)
            if end.reason == STATUS_UNKNOWN:
                reset_sandbox(self.containers, self.pod_state)
            self.sync()

    async def remove(self) -> None:
        """Kills and removes a pod that was deleted from the API, with its directory."""
        self._stopped = True
        await self._cancel_tasks()
        await self._status_manager.close()
        while True:
            try:
                await self._context.runtime.remove_sandbox(self.uid)
                await self._context.remove_pod(self.uid, self.node)
                return
            except (Failure, OSError) as error:
                log.warning("pod cleanup failed, retrying", pod=self.uid, reason=str(error))
                await self._context.clock.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Stops the worker; the pod keeps running."""
        self._stopped = True
        await self._cancel_tasks()
        await self._status_manager.close()

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _replace_images(self, old: lifecycle.Containers) -> None:
        """Restarts containers whose image changed; other fields of a container are immutable."""
        for name, container in self.containers.items():
            if name in old and old[name].spec.get("image") != container.spec.get("image"):
                message = f"Container {name} definition changed, will be restarted"
                self._begin_stop(
                    lifecycle.StopContainer(name, message, lifecycle.grace_of(self.pod), restart=True)
                )

    # Actions.

    def sync(self) -> None:
        """Executes all actions that are due and schedules the next sync."""
        if self._stopped:
            return
        computed = lifecycle.PodActions()
        for _ in range(MAX_SYNC_ROUNDS):
            lifecycle.mark_started_sidecars(self.containers, self.pod_state)
            computed = lifecycle.compute_pod_actions(self.pod, self.containers, self.pod_state, self._now())
            actions = [action for action in computed.actions if not isinstance(action, lifecycle.DeletePod)]
            for action in actions:
                self._execute(action)
            if not actions:
                break
        self._context.sync_at(self.uid, computed.sync_at)
        removable = any(isinstance(action, lifecycle.DeletePod) for action in computed.actions)
        self._status_manager.update(remove=removable)

    def _now(self) -> float:
        return self._context.clock.now().wall

    def _execute(self, action: lifecycle.Action) -> None:
        match action:
            case lifecycle.PreparePod():
                self.pod_state.preparing = True
                self._spawn(self._prepare(), "prepare")
            case lifecycle.StartContainer(name):
                self._set_run(name, state.starting(self.pod_state.run(name)))
                self._spawn(self._start(self.containers[name]), f"start {name}")
            case lifecycle.StopContainer():
                self._begin_stop(action)
            case lifecycle.SignalContainer(name, kill):
                self._signal(self.containers[name], kill=kill)
            case lifecycle.RunProbe(name, kind):
                self._start_probe(self.containers[name], kind)
            case lifecycle.FailPod(failure):
                self.pod_state.failure = failure
                self._context.events.normal(self.node, self._reference(), failure.reason, failure.message)
            case lifecycle.ReleasePod():
                self.pod_state.releasing = True
                self._spawn(self._release(), "release")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(self._guard(work, name), name=f"{self.uid} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A bug in one pod must not affect others; the failed action is retried after a while."""
        try:
            await work
        except Exception as error:
            log.error("pod task failed", pod=self.uid, task=name, error=error)
            self._recover(name)
        self.sync()

    def _recover(self, work: str) -> None:
        """Resets the state so that the failed action is computed again."""
        self.pod_state.prepare_at = self._now() + RETRY_SECONDS
        self.pod_state.preparing = False
        verb, _, name = work.partition(" ")
        if verb == "start" and self.pod_state.run(name).starting:
            again = Waiting(
                "CreateContainerError", "internal error, see the log", self._now() + RETRY_SECONDS
            )
            self._set_run(name, state.not_created(self.pod_state.run(name), again))

    def _set_run(self, name: str, run: ContainerRun) -> None:
        self.pod_state.runs[name] = run

    def _reference(self) -> Manifest:
        return self._context.reference(self.pod)

    def _warning(self, container: Container, reason: str, message: str) -> None:
        self._context.events.warn(self.node, self._context.reference(self.pod, container), reason, message)

    def _normal(self, container: Container, reason: str, message: str) -> None:
        self._context.events.normal(self.node, self._context.reference(self.pod, container), reason, message)

    # Sandbox and volumes.

    async def _prepare(self) -> None:
        try:
            self.pod_state.address = await self._starter.prepare(self.pod, self.pod_state)
        except (Failure, ApiError, OSError) as error:
            self.pod_state.preparing = False
            reason = error.reason if isinstance(error, Failure) else "FailedCreatePodSandBox"
            text = error.message if isinstance(error, Failure | ApiError) else str(error)
            if reason in ("FailedMount", FAILED_CLAIMS):
                self.pod_state.prepare_at = self._now() + MOUNT_BACKOFF.delay(self._mount_failures)
                self._mount_failures += 1
            else:
                reason, text = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {text}"
                self.pod_state.prepare_at = self._now() + RETRY_SECONDS
            self._context.events.warn(self.node, self._reference(), reason, text)
        else:
            self.pod_state.prepared, self.pod_state.preparing = True, False
            self._context.on_address(self.uid, self.pod_state.address)
            self._mount_failures = 0
            self._schedule_refresh()
            self.schedule_measure()

    async def _release(self) -> None:
        try:
            await self._context.runtime.remove_sandbox(self.uid)
            await self._context.volumes.remove(self.uid, self._context.options.pod_directory(self.uid))
            self._context.devices.release(self.node, self.uid)
            self._context.cpus.release(self.node, self.uid)
            self._context.on_address(self.uid, "")
        except (Failure, OSError) as error:
            self._context.events.warn(
                self.node, self._reference(), "FailedKillPod", f"error killing pod: {error}"
            )
            await self._context.clock.sleep(RETRY_SECONDS)
            self.pod_state.releasing = False
        else:
            self.pod_state.releasing, self.pod_state.released, self.pod_state.prepared = False, True, False

    async def refresh(self) -> None:
        """Updates volumes made of ConfigMaps, Secrets and other objects."""
        if not self.pod_state.prepared or self.pod_state.released:
            return
        try:
            await self._starter.ensure_volumes(self.pod, self.pod_state)
            errors = await self._context.volumes.refresh(self.pod)
        except (Failure, ApiError) as error:
            errors = [error.message]
        finally:
            self._refreshes += 1
            self._schedule_refresh()
        for message in errors:
            self._context.events.warn(self.node, self._reference(), "FailedMount", message)

    def _schedule_refresh(self) -> None:
        self._context.refresh_in(self.uid, refresh_delay(self.pod, self._refreshes))

    def schedule_measure(self, took: float = 0.0) -> None:
        """Schedules the next measurement of the pod's disk usage, if it is limited."""
        if disk_usage.limits_of(self.pod["spec"]):
            pause = max(self._context.options.measure_interval, MEASURE_PAUSE_FACTOR * took)
            self._context.measure_at(self.uid, pause)

    async def measure(self) -> None:
        """Evicts the pod if its disk usage exceeds a limit."""
        if not self.pod_state.prepared or lifecycle.is_terminating(self.pod, self.containers, self.pod_state):
            return
        context, spec = self._context, self.pod["spec"]
        begun = context.clock.now().monotonic
        try:
            layers = await context.runtime.writable_layers(self.uid)
            directory = context.options.pod_directory(self.uid)
            used = await asyncio.to_thread(disk_usage.measure_usage, spec, directory, layers)
        finally:
            self.schedule_measure(context.clock.now().monotonic - begun)
        failure = disk_usage.exceeded_limit(disk_usage.limits_of(spec), used)
        if (
            failure is None
            or self._stopped
            or lifecycle.is_terminating(self.pod, self.containers, self.pod_state)
        ):
            return
        self.pod_state.failure = failure
        context.events.warn(self.node, self._reference(), failure.reason, failure.message)
        self.sync()

    # Starting containers.

    async def _start(self, container: Container) -> None:
        attempt = self.pod_state.run(container.name).attempt + 1
        try:
            begun = await self._starter.start(self.pod, self.pod_state, container, attempt)
        except (Failure, ApiError, OSError) as error:
            self._on_start_failure(container, attempt, error)
            return
        hook = container.hook("postStart")
        run = state.started(self.pod_state.run(container.name), attempt, begun.started, hook=hook is not None)
        self._set_run(container.name, run)
        self._save_checkpoint()
        self._normal(container, "Created", "Container created")
        self._normal(container, "Started", "Container started")
        early = self._early_exits.pop(container.name, None)
        if early is not None and early.attempt == attempt:
            self._record_exit(early)
        elif not begun.running:
            self._record_exit(begun)
        elif hook is not None:
            await self._post_start(container, attempt, hook)

    def _on_start_failure(self, container: Container, attempt: int, error: Exception) -> None:
        reason, text = error.reason if isinstance(error, Failure) else "", str(error)
        self._report_start_failure(container, reason, text)
        run = self.pod_state.run(container.name)
        self._early_exits.pop(container.name, None)
        if reason == NO_SANDBOX:
            self._set_run(container.name, replace(run, starting=False))
            reset_sandbox(self.containers, self.pod_state)
            self.pod_state.prepare_at = self._now() + SANDBOX_RETRY_SECONDS
        elif reason in START_FAILURES:
            now = self._now()
            how = Termination(attempt, state.START_ERROR, "StartError", text, finished=now)
            self._set_run(container.name, state.ended(run, how))
            self._save_checkpoint()
        else:
            known = reason if reason in CREATE_FAILURES else "CreateContainerError"
            again = Waiting(known, text, self._now() + RETRY_SECONDS)
            self._set_run(container.name, state.not_created(run, again))

    def _report_start_failure(self, container: Container, reason: str, text: str) -> None:
        if reason == NO_SANDBOX:
            return  # the sandbox is created again immediately
        if reason in IMAGE_EVENTS:
            self._warning(container, IMAGE_EVENTS[reason], text)
            text = reason
        self._warning(container, "Failed", f"Error: {text}")

    async def _post_start(self, container: Container, attempt: int, handler: Manifest) -> None:
        context = self._context
        result = await run_hook(
            context.runtime, context.clock, self.uid, self.pod_state.address, container, handler
        )
        run = self.pod_state.run(container.name)
        if run.attempt != attempt or not run.running:
            return
        self._set_run(container.name, replace(run, post_start_done=True))
        if not result.success:
            self._warning(container, "FailedPostStartHook", "PostStartHook failed")
            grace = lifecycle.grace_of(self.pod)
            self._begin_stop(lifecycle.StopContainer(container.name, "FailedPostStartHook", grace))

    # Stopping containers.

    def _begin_stop(self, stop: lifecycle.StopContainer) -> None:
        container, run = self.containers[stop.name], self.pod_state.run(stop.name)
        if run.stopping is not None or not run.running:
            return
        self._normal(container, "Killing", stop.message)
        hook = container.hook("preStop") if stop.grace > 0 else None
        stopping = Stopping(self._now(), stop.grace, restart=stop.restart, hook=hook is not None)
        self._set_run(stop.name, replace(run, stopping=stopping))
        if hook is not None:
            self._spawn(self._pre_stop(container, run.attempt, hook, stop.grace), f"preStop {stop.name}")

    async def _pre_stop(self, container: Container, attempt: int, handler: Manifest, grace: float) -> None:
        context = self._context
        work = run_hook(context.runtime, context.clock, self.uid, self.pod_state.address, container, handler)
        result = await run_with_timeout(context.clock, grace, work)
        if not result.success:
            self._warning(container, "FailedPreStopHook", "PreStopHook failed")
        run = self.pod_state.run(container.name)
        if run.attempt == attempt and run.stopping is not None:
            self._set_run(container.name, replace(run, stopping=replace(run.stopping, hook=False)))

    def _signal(self, container: Container, *, kill: bool) -> None:
        run = self.pod_state.run(container.name)
        assert run.stopping is not None
        changed = replace(run.stopping, killed=True) if kill else replace(run.stopping, term_sent=self._now())
        self._set_run(container.name, replace(run, stopping=changed))
        number = signal.SIGKILL if kill else stop_signal(container)
        self._spawn(self._send(container.name, run.attempt, number), f"signal {container.name}")

    async def _send(self, name: str, attempt: int, number: int) -> None:
        """Sends a signal; if that fails, the action is computed again."""
        try:
            await self._context.runtime.signal(self.uid, name, number)
        except (Failure, OSError) as error:
            log.warning("signal not sent, retrying", pod=self.uid, container=name, reason=str(error))
            await self._context.clock.sleep(SIGNAL_RETRY_SECONDS)
            run = self.pod_state.run(name)
            if run.attempt == attempt and run.running and run.stopping is not None:
                kill = number == signal.SIGKILL
                unsent = replace(
                    run.stopping, **({"killed": False} if kill else {"term_sent": lifecycle.FOREVER})
                )
                self._set_run(name, replace(run, stopping=unsent))

    def _record_exit(self, end: ContainerState) -> None:
        container, options = self.containers[end.name], self._context.options
        message = end.message or termination_message(
            container.spec,
            options.termination_path(self.uid, end.name, end.attempt),
            options.log_path(self.uid, end.name, end.attempt),
            failed=end.exit_code != 0,
        )
        if end.reason == STATUS_UNKNOWN:
            message = message or STATUS_UNKNOWN_MESSAGE
        reason = end.reason or ("Completed" if end.exit_code == 0 else "Error")
        how = Termination(end.attempt, end.exit_code, reason, message, end.started, end.finished)
        run = state.ended(self.pod_state.run(end.name), how)
        self._set_run(end.name, run)
        self._save_checkpoint()
        running = not lifecycle.is_terminating(self.pod, self.containers, self.pod_state)
        if running and run.delay and lifecycle.will_restart(container, run):
            pod = full_name(self.pod)
            message = f"Back-off restarting failed container {end.name} in pod {pod}"
            self._warning(container, "BackOff", message)

    def _save_checkpoint(self) -> None:
        self._context.save_checkpoint(self.uid, self.node, self.pod_state)

    # Probes.

    def _start_probe(self, container: Container, kind: probe_state.ProbeKind) -> None:
        run, probe = self.pod_state.run(container.name), container.probes[kind]
        before = run.probe_states.get(kind, probe_state.NOT_PROBED)
        changed = {**run.probe_states, kind: probe_state.probe_started(before, probe, self._now())}
        self._set_run(container.name, replace(run, probe_states=changed))
        self._spawn(self._probe(container, probe, run.attempt), f"{kind.label} {container.name}")

    async def _probe(self, container: Container, probe: probe_state.Probe, attempt: int) -> None:
        context = self._context
        result = await run_probe(
            context.runtime, context.clock, self.uid, self.pod_state.address, container, probe
        )
        run = self.pod_state.run(container.name)
        if run.attempt != attempt or not run.running:
            return
        before = run.probe_states.get(probe.kind, probe_state.NOT_PROBED)
        after = probe_state.probe_finished(before, probe, result.success)
        self._set_run(container.name, replace(run, probe_states={**run.probe_states, probe.kind: after}))
        self._report_probe_failure(container, probe, result)

    def _report_probe_failure(
        self, container: Container, probe: probe_state.Probe, result: HandlerResult
    ) -> None:
        label = probe.kind.label.capitalize()
        if result.success is None:
            text = f"{label} probe errored and resulted in unknown state: {result.output}"
        elif not result.success and not (
            is_deleting(self.pod) and probe.kind is not probe_state.ProbeKind.READINESS
        ):
            text = f"{label} probe failed: {result.output}"
        else:
            return
        self._warning(container, "Unhealthy", text)


def stop_signal(container: Container) -> int:
    """The signal that stops a container."""
    name = (container.spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal.Signals, name, signal.SIGTERM))

"""One pod at work: does what its life decides, and keeps the record of what came of it.

Nothing runs here while nothing happens: a look is a plain function, called when the pod, a container or the time
moved on; whatever takes time is a task that ends in another look.
"""

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from volcano.kube.errors import ApiError
from volcano.kube.manifest import Manifest, is_deleting, uid_of, version_of
from volcano.log import Log
from volcano.nodes.kubelet import container_state as state
from volcano.nodes.kubelet import probe_state
from volcano.nodes.kubelet.container_state import Container, Ended, Run, Stopping, Waiting, containers_of
from volcano.nodes.kubelet.pods import disk_usage, lifecycle
from volcano.nodes.kubelet.pods.adoption import LOST, LOST_MESSAGE, lose_sandbox
from volcano.nodes.kubelet.pods.context import Surroundings
from volcano.nodes.kubelet.pods.lifecycle import Record
from volcano.nodes.kubelet.pods.start import Starter
from volcano.nodes.kubelet.pods.status_manager import Report
from volcano.nodes.kubelet.pods.termination_message import last_words
from volcano.nodes.kubelet.probes.handlers import Outcome
from volcano.nodes.kubelet.probes.hooks import run_hook
from volcano.nodes.kubelet.probes.prober import put, within
from volcano.nodes.shim.specs import ContainerState, Failure

log = Log("agent")

MOST_ROUNDS = 64  # decisions of one moment; a pod has no more to do at once
CREATE_AGAIN = 10.0  # seconds
SANDBOX_AGAIN = 0.5
SIGNAL_AGAIN = 1.0
NO_SANDBOX = "SandboxNotFound"
MEASURE_SELDOM = 20  # times as long as measuring takes is the pause after it
MOUNT_AGAIN, LONGEST_MOUNT_AGAIN = 0.5, 122.0
# What is wrong with an image, and the reason of the event that tells of it.
IMAGE_EVENTS = {
    "ErrImagePull": "Failed",
    "ImagePullBackOff": "BackOff",
    "ErrImageNeverPull": "ErrImageNeverPull",
    "InvalidImageName": "InspectFailed",
}
# Failures before a container is there, and such after which it counts as started and over.
CREATE_FAILURES = frozenset(("CreateContainerConfigError", "CreateContainerError", *IMAGE_EVENTS))
START_FAILURES = frozenset(("ContainerCannotRun", "RunContainerError", "StartError"))


class PodWorker:
    """One pod on one of our nodes."""

    def __init__(self, around: Surroundings, pod: Manifest, record: Record) -> None:
        self._around = around
        self.pod = pod
        self.record = record
        self.containers: lifecycle.Containers = containers_of(pod)
        self.uid = uid_of(pod)
        self.node: str = pod["spec"]["nodeName"]
        self._starter = Starter(around)
        self._report = Report(around, self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._early: dict[str, ContainerState] = {}  # ends that came before we heard of their start
        self._mount_again = MOUNT_AGAIN
        self._gone = False

    # What others tell.

    def see(self, pod: Manifest) -> None:
        """The pod has changed."""
        if version_of(pod) < version_of(self.pod):
            return
        before, self.pod = self.pod, pod
        if pod["spec"] != before["spec"]:
            old, self.containers = self.containers, containers_of(pod)
            self._replace_images(old)
        self.look()

    def hear(self, end: ContainerState) -> None:
        """A container has ended."""
        run = self.record.run(end.name)
        if run.starting and end.attempt == run.attempt + 1:
            self._early[end.name] = end
        elif run.running and run.attempt == end.attempt:
            self._end(end)
            if end.reason == LOST:
                lose_sandbox(self.containers, self.record)
            self.look()

    async def vanish(self) -> None:
        """The pod is gone from the API: whatever is left of it ends at once, and its directory goes."""
        self._gone = True
        await self._abandon()
        await self._report.close()
        while True:
            try:
                await self._around.runtime.remove_sandbox(self.uid)
                await self._around.forget(self.uid, self.node)
                return
            except (Failure, OSError) as error:
                log.warning("pod not removed, trying again", pod=self.uid, reason=str(error))
                await self._around.clock.sleep(CREATE_AGAIN)

    async def close(self) -> None:
        """Lets go of the pod; what runs of it runs on."""
        self._gone = True
        await self._abandon()
        await self._report.close()

    async def _abandon(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _replace_images(self, old: lifecycle.Containers) -> None:
        """Of a pod that is there, only images may change; a container with another one starts again."""
        for name, container in self.containers.items():
            if name in old and old[name].spec.get("image") != container.spec.get("image"):
                message = f"Container {name} definition changed, will be restarted"
                self._begin_stop(lifecycle.Stop(name, message, lifecycle.grace_of(self.pod), restart=True))

    # What is done about it.

    def look(self) -> None:
        """Does everything that is to be done now, and says when to look again."""
        if self._gone:
            return
        decision = lifecycle.Decision()
        for _ in range(MOST_ROUNDS):
            lifecycle.remember_sidecars(self.containers, self.record)
            decision = lifecycle.decide(self.pod, self.containers, self.record, self._now())
            actions = [action for action in decision.actions if not isinstance(action, lifecycle.Remove)]
            for action in actions:
                self._act(action)
            if not actions:
                break
        self._around.look_at(self.uid, decision.again_at)
        removable = any(isinstance(action, lifecycle.Remove) for action in decision.actions)
        self._report.update(remove=removable)

    def _now(self) -> float:
        return self._around.clock.now().wall

    def _act(self, action: lifecycle.Action) -> None:
        match action:
            case lifecycle.Prepare():
                self.record.preparing = True
                self._spawn(self._prepare(), "prepare")
            case lifecycle.Start(name):
                self._change(name, state.starting(self.record.run(name)))
                self._spawn(self._start(self.containers[name]), f"start {name}")
            case lifecycle.Stop():
                self._begin_stop(action)
            case lifecycle.Signal(name, kill):
                self._signal(self.containers[name], kill=kill)
            case lifecycle.Ask(name, kind):
                self._ask(self.containers[name], kind)
            case lifecycle.Fail(verdict):
                self.record.verdict = verdict
                self._around.events.normal(self.node, self._about(), verdict.reason, verdict.message)
            case lifecycle.Release():
                self.record.releasing = True
                self._spawn(self._release(), "release")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(self._isolated(work, name), name=f"{self.uid} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _isolated(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """One pod's trouble is its own; what it was about to do is done again after a while."""
        try:
            await work
        except Exception as error:
            log.error("pod work failed", pod=self.uid, work=name, error=error)
            self._recover(name)
        self.look()

    def _recover(self, work: str) -> None:
        """Leaves the record such that the work that broke off is decided on anew."""
        self.record.prepare_at = self._now() + CREATE_AGAIN
        self.record.preparing = False
        verb, _, name = work.partition(" ")
        if verb == "start" and self.record.run(name).starting:
            again = Waiting("CreateContainerError", "internal error, see the log", self._now() + CREATE_AGAIN)
            self._change(name, state.not_created(self.record.run(name), again))

    def _change(self, name: str, run: Run) -> None:
        self.record.runs[name] = run

    def _about(self) -> Manifest:
        return self._around.about(self.pod)

    def _warn(self, container: Container, reason: str, message: str) -> None:
        self._around.events.warn(self.node, self._around.about(self.pod, container), reason, message)

    def _note(self, container: Container, reason: str, message: str) -> None:
        self._around.events.normal(self.node, self._around.about(self.pod, container), reason, message)

    # Preparing and releasing.

    async def _prepare(self) -> None:
        try:
            self.record.address = await self._starter.prepare(self.pod, self.record)
        except (Failure, ApiError, OSError) as error:
            self.record.preparing = False
            reason = error.reason if isinstance(error, Failure) else "FailedCreatePodSandBox"
            text = error.message if isinstance(error, Failure | ApiError) else str(error)
            if reason == "FailedMount":
                self.record.prepare_at = self._now() + self._mount_again
                self._mount_again = min(2 * self._mount_again, LONGEST_MOUNT_AGAIN)
            else:
                reason, text = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {text}"
                self.record.prepare_at = self._now() + CREATE_AGAIN
            self._around.events.warn(self.node, self._about(), reason, text)
        else:
            self.record.prepared, self.record.preparing = True, False
            self._around.tell_address(self.uid, self.record.address)
            self._mount_again = MOUNT_AGAIN
            self._around.refresh_at(self.uid)
            self.expect_measuring()

    async def _release(self) -> None:
        try:
            await self._around.runtime.remove_sandbox(self.uid)
            await self._around.volumes.remove(self.uid, self._around.settings.pod_directory(self.uid))
            self._around.devices.release(self.node, self.uid)
            self._around.tell_address(self.uid, "")
        except (Failure, OSError) as error:
            self._around.events.warn(self.node, self._about(), "FailedKillPod", f"error killing pod: {error}")
            await self._around.clock.sleep(CREATE_AGAIN)
            self.record.releasing = False
        else:
            self.record.releasing, self.record.released, self.record.prepared = False, True, False

    async def refresh(self) -> None:
        """Brings volumes that follow their sources up to date."""
        if not self.record.prepared or self.record.released:
            return
        try:
            await self._starter.know_volumes(self.pod, self.record)
            complaints = await self._around.volumes.refresh(self.pod)
        except (Failure, ApiError) as error:
            complaints = [error.message]
        finally:
            self._around.refresh_at(self.uid)
        for complaint in complaints:
            self._around.events.warn(self.node, self._about(), "FailedMount", complaint)

    def expect_measuring(self, took: float = 0.0) -> None:
        """Sees to what the pod writes being measured in a while, if that is limited."""
        if disk_usage.limits_of(self.pod["spec"]):
            pause = max(self._around.settings.measure_every, MEASURE_SELDOM * took)
            self._around.measure_at(self.uid, pause)

    async def measure(self) -> None:
        """Evicts the pod when it has written more to the disk than it may."""
        if not self.record.prepared or lifecycle.is_ending(self.pod, self.containers, self.record):
            return
        around, spec = self._around, self.pod["spec"]
        begun = around.clock.now().monotonic
        try:
            layers = await around.runtime.written(self.uid)
            directory = around.settings.pod_directory(self.uid)
            used = await asyncio.to_thread(disk_usage.measured, spec, directory, layers)
        finally:
            self.expect_measuring(around.clock.now().monotonic - begun)
        verdict = disk_usage.excess(disk_usage.limits_of(spec), used)
        if verdict is None or self._gone or lifecycle.is_ending(self.pod, self.containers, self.record):
            return
        self.record.verdict = verdict
        around.events.warn(self.node, self._about(), verdict.reason, verdict.message)
        self.look()

    # Starting.

    async def _start(self, container: Container) -> None:
        attempt = self.record.run(container.name).attempt + 1
        try:
            begun = await self._starter.start(self.pod, self.record, container, attempt)
        except (Failure, ApiError, OSError) as error:
            self._not_started(container, attempt, error)
            return
        hook = container.hook("postStart")
        run = state.started(self.record.run(container.name), attempt, begun.started, hook=hook is not None)
        self._change(container.name, run)
        self._remember()
        self._note(container, "Created", "Container created")
        self._note(container, "Started", "Container started")
        early = self._early.pop(container.name, None)
        if early is not None and early.attempt == attempt:
            self._end(early)
        elif not begun.running:
            self._end(begun)
        elif hook is not None:
            await self._post_start(container, attempt, hook)

    def _not_started(self, container: Container, attempt: int, error: Exception) -> None:
        reason, text = error.reason if isinstance(error, Failure) else "", str(error)
        self._tell_failure(container, reason, text)
        run = self.record.run(container.name)
        self._early.pop(container.name, None)
        if reason == NO_SANDBOX:
            self._change(container.name, replace(run, starting=False))
            lose_sandbox(self.containers, self.record)
            self.record.prepare_at = self._now() + SANDBOX_AGAIN
        elif reason in START_FAILURES:
            now = self._now()
            how = Ended(attempt, state.START_ERROR, "StartError", text, finished=now)
            self._change(container.name, state.ended(run, how))
            self._remember()
        else:
            known = reason if reason in CREATE_FAILURES else "CreateContainerError"
            again = Waiting(known, text, self._now() + CREATE_AGAIN)
            self._change(container.name, state.not_created(run, again))

    def _tell_failure(self, container: Container, reason: str, text: str) -> None:
        if reason == NO_SANDBOX:
            return  # it is made again before anybody misses it
        if reason in IMAGE_EVENTS:
            self._warn(container, IMAGE_EVENTS[reason], text)
            text = reason
        self._warn(container, "Failed", f"Error: {text}")

    async def _post_start(self, container: Container, attempt: int, handler: Manifest) -> None:
        around = self._around
        outcome = await run_hook(
            around.runtime, around.clock, self.uid, self.record.address, container, handler
        )
        run = self.record.run(container.name)
        if run.attempt != attempt or not run.running:
            return
        self._change(container.name, replace(run, hooked=True))
        if not outcome.well:
            self._warn(container, "FailedPostStartHook", "PostStartHook failed")
            grace = lifecycle.grace_of(self.pod)
            self._begin_stop(lifecycle.Stop(container.name, "FailedPostStartHook", grace))

    # Stopping and ending.

    def _begin_stop(self, stop: lifecycle.Stop) -> None:
        container, run = self.containers[stop.name], self.record.run(stop.name)
        if run.stopping is not None or not run.running:
            return
        self._note(container, "Killing", stop.message)
        hook = container.hook("preStop") if stop.grace > 0 else None
        stopping = Stopping(self._now(), stop.grace, restart=stop.restart, hook=hook is not None)
        self._change(stop.name, replace(run, stopping=stopping))
        if hook is not None:
            self._spawn(self._pre_stop(container, run.attempt, hook, stop.grace), f"preStop {stop.name}")

    async def _pre_stop(self, container: Container, attempt: int, handler: Manifest, grace: float) -> None:
        around = self._around
        work = run_hook(around.runtime, around.clock, self.uid, self.record.address, container, handler)
        outcome = await within(around.clock, grace, work)
        if not outcome.well:
            self._warn(container, "FailedPreStopHook", "PreStopHook failed")
        run = self.record.run(container.name)
        if run.attempt == attempt and run.stopping is not None:
            self._change(container.name, replace(run, stopping=replace(run.stopping, hook=False)))

    def _signal(self, container: Container, *, kill: bool) -> None:
        run = self.record.run(container.name)
        assert run.stopping is not None
        changed = replace(run.stopping, killed=True) if kill else replace(run.stopping, termed=self._now())
        self._change(container.name, replace(run, stopping=changed))
        number = signal.SIGKILL if kill else stop_signal(container)
        self._spawn(self._send(container.name, run.attempt, number), f"signal {container.name}")

    async def _send(self, name: str, attempt: int, number: int) -> None:
        """Sends a signal; one that could not be sent is decided on again."""
        try:
            await self._around.runtime.signal(self.uid, name, number)
        except (Failure, OSError) as error:
            log.warning("signal not sent, trying again", pod=self.uid, container=name, reason=str(error))
            await self._around.clock.sleep(SIGNAL_AGAIN)
            run = self.record.run(name)
            if run.attempt == attempt and run.running and run.stopping is not None:
                kill = number == signal.SIGKILL
                unsent = replace(
                    run.stopping, **({"killed": False} if kill else {"termed": lifecycle.FOREVER})
                )
                self._change(name, replace(run, stopping=unsent))

    def _end(self, end: ContainerState) -> None:
        container, settings = self.containers[end.name], self._around.settings
        words = end.message or last_words(
            container.spec,
            settings.termination_path(self.uid, end.name, end.attempt),
            settings.log_path(self.uid, end.name, end.attempt),
            failed=end.exit_code != 0,
        )
        if end.reason == LOST:
            words = words or LOST_MESSAGE
        reason = end.reason or ("Completed" if end.exit_code == 0 else "Error")
        how = Ended(end.attempt, end.exit_code, reason, words, end.started, end.finished)
        run = state.ended(self.record.run(end.name), how)
        self._change(end.name, run)
        self._remember()
        living = not lifecycle.is_ending(self.pod, self.containers, self.record)
        if living and run.pause and lifecycle.will_restart(container, run):
            pod = self._around.full_name(self.pod)
            message = f"Back-off restarting failed container {end.name} in pod {pod}"
            self._warn(container, "BackOff", message)

    def _remember(self) -> None:
        self._around.remember(self.uid, self.node, self.record)

    # Probes.

    def _ask(self, container: Container, kind: probe_state.ProbeKind) -> None:
        run, probe = self.record.run(container.name), container.probes[kind]
        standing = run.standings.get(kind, probe_state.UNASKED)
        changed = {**run.standings, kind: probe_state.asking(standing, probe, self._now())}
        self._change(container.name, replace(run, standings=changed))
        self._spawn(self._put(container, probe, run.attempt), f"{kind.word} {container.name}")

    async def _put(self, container: Container, probe: probe_state.Probe, attempt: int) -> None:
        around = self._around
        outcome = await put(around.runtime, around.clock, self.uid, self.record.address, container, probe)
        run = self.record.run(container.name)
        if run.attempt != attempt or not run.running:
            return
        standing = run.standings.get(probe.kind, probe_state.UNASKED)
        self._change(
            container.name,
            replace(
                run,
                standings={**run.standings, probe.kind: probe_state.answered(standing, probe, outcome.well)},
            ),
        )
        self._tell_unhealthy(container, probe, outcome)

    def _tell_unhealthy(self, container: Container, probe: probe_state.Probe, outcome: Outcome) -> None:
        word = probe.kind.word.capitalize()
        if outcome.well is None:
            text = f"{word} probe errored and resulted in unknown state: {outcome.text}"
        elif not outcome.well and not (
            is_deleting(self.pod) and probe.kind is not probe_state.ProbeKind.READINESS
        ):
            text = f"{word} probe failed: {outcome.text}"
        else:
            return
        self._warn(container, "Unhealthy", text)


def stop_signal(container: Container) -> int:
    """The signal that asks a container to end."""
    name = (container.spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal.Signals, name, signal.SIGTERM))

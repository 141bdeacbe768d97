"""`run`: a function or a script as a gang of pods."""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from volcano.base.captured_log import captured_log
from volcano.base.clock import Clock
from volcano.base.progress_line import ProgressLine
from volcano.kube.api.errors import ApiError
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.http import HttpClient
from volcano.sdk.call import MARK
from volcano.sdk.cluster import Cluster
from volcano.sdk.errors import JobFailed, NotFinished, SdkError, WorkerFailed
from volcano.sdk.functions import PROGRAM, PYTHON, pack_call, read_outcome, without_outcome
from volcano.sdk.objects import Job
from volcano.services.errors import NotFoundError
from volcano.services.job_watch import wait_for, why
from volcano.services.jobs import check_priority_class
from volcano.services.logs.follow import follow_logs
from volcano.services.logs.lines import Line
from volcano.services.logs.sources import Prefixes, Source, Wanted, place_of
from volcano.services.submit import submission as submit
from volcano.services.submit.files import FileRequest, plan_files
from volcano.services.submit.node_facts import inspect_nodes
from volcano.services.submit.outputs import copy_outputs
from volcano.services.submit.pod_files import PodFiles

Target = Callable[..., Any] | str | Sequence[str]


def run(
    target: Target,
    *arguments: Any,
    workers: int = 1,
    gpus: int = 0,
    cpus: str | float = "1",
    memory: str = "1Gi",
    name: str = "",
    queue: str = "",
    priority_class: str = "",
    image: str = "",
    env: Mapping[str, str] | None = None,
    plugins: Sequence[str] = (),
    retries: int = 0,
    min_available: int | None = None,
    upload: bool = False,
    named_arguments: Mapping[str, Any] | None = None,
    cluster: Cluster | None = None,
) -> "Run":
    """Submits a function, or a script with its arguments, that each of `workers` pods runs; returns at once.

    A function is sent with its arguments, its closures and the modules below the current directory that it uses. In the
    pods, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, so that `torch.distributed` starts without arguments.

    >>> def rank():
    ...     import os
    ...     return int(os.environ["RANK"])
    >>> run(rank, workers=2, cpus="100m", memory="64Mi").results(timeout=120)
    [0, 1]
    """
    cluster = cluster or Cluster()
    call: Callable[..., Any] | None = None
    if callable(target):
        call, command = target, ["python", PROGRAM]
    else:
        command = _command(target, arguments)
    submission = submit.Submission(
        command=command,
        name=name,
        workers=workers,
        gpus=gpus,
        cpus=str(cpus),
        memory=memory,
        image=image or (f"python:{PYTHON}" if call is not None else submit.image_for(command)),
        queue=queue,
        min_available=min_available,
        priority_class=priority_class,
        retries=retries,
        env=dict(env or {}),
        plugins=tuple(dict.fromkeys((*plugins, "svc", "env"))),
    )
    _check(submission)
    archive = pack_call(call, arguments, named_arguments or {}) if call is not None else ()
    title = name or (_title(call) if call is not None else submit.name_from(command))
    request = FileRequest(
        stem=title,
        command=command,
        requests={"cpu": submission.cpus, "memory": memory},
        image=image,
        upload=upload and call is None,
    )
    created = cluster.wait(_submit(cluster, submission, request, archive, title))
    return Run(cluster, Job(created), is_function=call is not None)


class Run:
    """A submitted gang: wait for it, read its logs and results."""

    def __init__(self, cluster: Cluster, job: Job, *, is_function: bool) -> None:
        self._cluster, self._job, self._is_function = cluster, job, is_function

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def namespace(self) -> str:
        return self._job.namespace

    @property
    def job(self) -> Job:
        """The job as it is now."""
        self._job = self._cluster.jobs.get(self.name, self.namespace)
        return self._job

    @property
    def phase(self) -> str:
        return self.job.phase

    @property
    def reason(self) -> str:
        """Why the job waits; empty when it does not or no reason is known."""
        return self._cluster.wait(why(self._client, self.job.manifest))

    def wait(self, timeout: float | None = None) -> "Run":
        """Waits until the job is completed. Raises JobFailed if it ended otherwise, NotFinished after the timeout."""
        limit = math.inf if timeout is None else timeout
        try:
            self._cluster.wait(self._completed(limit))
        except SdkError as error:
            job = self.job
            if not job.has_ended:
                raise NotFinished(str(error)) from None
            failure = self._failure(job)
            raise failure from failure.__cause__
        return self

    def results(self, timeout: float | None = None) -> list[Any]:
        """Waits, and returns what the function returned in each worker, by rank."""
        if not self._is_function:
            raise SdkError(
                f"job {self.name} runs a script, which returns nothing: read its logs or its files in $VOLCANO_OUTPUT"
            )
        self.wait(timeout)
        found = []
        for rank, log in enumerate(self._worker_logs()):
            outcome = read_outcome(log)
            if outcome is None:
                raise JobFailed(
                    f"worker {rank} of job {self.name} left no result: its log is not complete, or its node is "
                    "simulated and runs nothing"
                )
            found.append(outcome[1])
        return found

    def logs(self, rank: int | None = None) -> str:
        """What the workers printed so far, or one of them."""
        logs = self._worker_logs()
        if rank is not None:
            if not 0 <= rank < len(logs):
                raise SdkError(f"job {self.name} has workers 0 to {len(logs) - 1}, not {rank}")
            return _text(logs[rank])
        if len(logs) == 1:
            return _text(logs[0])
        return "".join(f"[{i}] {line}\n" for i, log in enumerate(logs) for line in _text(log).splitlines())

    def follow(self, stream: TextIO | None = None) -> "Run":
        """Prints the logs as they are written until the job ends."""
        job, wanted, target = self.job.manifest, Wanted(), stream or sys.stdout
        prefixes = Prefixes(job, wanted)

        def on_lines(lines: Sequence[tuple[Source, Line]]) -> None:
            for source, line in lines:
                if f"{MARK} " not in line.text:
                    target.write(f"{prefixes.of(source)} {line.text}\n")
            target.flush()

        with captured_log():  # interrupted connections are retried; their messages are noise
            self._cluster.wait(
                follow_logs(self._client, self._clock, job, wanted, on_lines=on_lines, on_note=_note)
            )
        return self

    def outputs(self, directory: str) -> int:
        """Copies the files that the workers wrote to $VOLCANO_OUTPUT; returns how many there are."""
        copied = self._cluster.wait(copy_outputs(self._client, self._clock, self._key, directory))
        for note in copied.notes:
            _note(note)
        return len(copied.sizes)

    def suspend(self) -> None:
        self._cluster.jobs.suspend(self.name, self.namespace)

    def resume(self) -> None:
        self._cluster.jobs.resume(self.name, self.namespace)

    def delete(self) -> None:
        """Stops the job and removes it with its pods and files."""
        self._cluster.jobs.delete(self.name, self.namespace)

    def __repr__(self) -> str:
        try:
            job = self.job
        except NotFoundError:
            return f"<Run {self.namespace}/{self.name} deleted>"
        except (SdkError, ApiError):  # notebooks and debuggers show every object
            return f"<Run {self.namespace}/{self.name} not readable>"
        return f"<Run {job.namespace}/{job.name} {job.phase}, {job.running} running of {job.replicas}>"

    @property
    def _client(self) -> HttpClient:
        return self._cluster.connection.client

    @property
    def _clock(self) -> Clock:
        return self._cluster.connection.clock

    @property
    def _key(self) -> Key:
        return Key(self.namespace, self.name)

    async def _completed(self, limit: float) -> None:
        async with ProgressLine(sys.stderr, self._clock) as line:
            await wait_for(self._client, self._clock, self._key, limit=limit, on_progress=line.say)

    def _worker_logs(self) -> list[str]:
        """Log of every worker, by rank; empty for one that has not started."""
        pods = self._cluster.pods(self.name, self.namespace)
        logs = [""] * self._job.replicas
        for pod in pods:
            _, rank = place_of(pod)
            if rank < len(logs):
                logs[rank] = self._cluster.wait(_log(self._client, key_of(pod)))
        return logs

    def _failure(self, job: Job) -> JobFailed:
        for rank, log in enumerate(self._worker_logs() if self._is_function else ()):
            outcome = read_outcome(log)
            if outcome is not None and outcome[0] == "error":
                traceback, error = outcome[1]
                failed = WorkerFailed(rank, traceback)
                failed.__cause__ = error
                return failed
        message = f": {job.message}" if job.message else ""
        tails = [_tail(log) for log in self._worker_logs() if log.strip()]
        return JobFailed(
            f"job {job.name} ended {job.phase}{message}" + "".join(f"\n{tail}" for tail in tails[:1])
        )


async def _submit(
    cluster: Cluster,
    submission: submit.Submission,
    request: FileRequest,
    archive: Sequence[bytes],
    title: str,
) -> Manifest:
    client = cluster.connection.client
    await check_priority_class(client, submission.priority_class)
    plan = await plan_files(request, cluster.connection, await inspect_nodes(client))
    for note in plan.notes:
        _note(note)
    files = plan.files
    if archive:
        files = replace(files, archive=archive, prefix=files.prefix or f"{title}-{os.urandom(3).hex()}")

    def make_job(files: PodFiles) -> Manifest:
        job = submit.job_of(replace(submission, files=files), cluster.namespace)
        if not submission.name:
            job["metadata"] = {"generateName": f"{title}-", "namespace": cluster.namespace}
        if not submission.retries:
            # A worker that failed would let the others wait for it for ever.
            job["spec"]["policies"].append({"event": "PodFailed", "action": "TerminateJob"})
        return job

    return await submit.create_job(client, files, cluster.namespace, make_job, _note)


async def _log(client: HttpClient, pod: Key) -> str:
    try:
        reply = await client.raw("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log")
    except ApiError:
        return ""  # it has not started, or is gone
    return reply.body.decode(errors="replace")


def _command(target: str | Sequence[str], arguments: Sequence[Any]) -> list[str]:
    """The command of a script: `train.py` is run by Python, everything else as it is."""
    words = [target] if isinstance(target, str) else [str(word) for word in target]
    words += [str(argument) for argument in arguments]
    if not words or not words[0]:
        raise SdkError('say what to run: a function, a script such as "train.py", or a list of words')
    return ["python", *words] if words[0].endswith(".py") else submit.command_of(words)


def _check(submission: submit.Submission) -> None:
    for field, least in (("workers", 1), ("gpus", 0), ("retries", 0)):
        value = getattr(submission, field)
        if not isinstance(value, int) or value < least:
            raise SdkError(f"{field}: must be a whole number of at least {least} (got {value!r})")
    if submission.name and not submit.NAME.fullmatch(submission.name):
        raise SdkError(f"name: {submission.name!r} must be lower case letters, digits and dashes")


def _title(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "function")
    return submit.name_from([f"{name if name.isidentifier() else 'function'}.py"])


def _text(log: str) -> str:
    text = "\n".join(without_outcome(log.splitlines()))
    return text.strip("\n") + "\n" if text.strip("\n") else ""


def _tail(log: str) -> str:
    return "\n".join(_text(log).splitlines()[-20:])


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")

"""Options of batch systems for `vcctl submit`: time limit, array, dependencies, requeue."""

import argparse
import math
import re
from collections.abc import Sequence

from volcano.cli.errors import UsageError, value_of
from volcano.kube.api import duration
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import JOB_DEPENDENCY, MAX_RUNNING_PODS, WALLTIME
from volcano.model.annotations import walltime
from volcano.model.job_dependencies import parse_dependencies

ARRAY_IDS = "VC_ARRAY_IDS"
MOST_IDS = 10_000
# Selects the id of this pod by its index, and exports it under the names that scripts of other systems read.
SELECT_ID = (
    'set -- "$0" "$@"; i=$VC_TASK_INDEX; for id in $VC_ARRAY_IDS; do [ "$i" -eq 0 ] && break; i=$((i-1)); done; '
    'export VC_ARRAY_TASK_ID="$id" SLURM_ARRAY_TASK_ID="$id" LSB_JOBINDEX="$id"; exec "$@"'
)
DEFAULT_REQUEUES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batch")
    add = group.add_argument
    add(
        "--time",
        "-t",
        default="",
        metavar="TIME",
        help="end the job this long after its start: 2h, 90m, 1-12:00:00",
    )
    add(
        "--array",
        "-a",
        default="",
        metavar="IDS",
        help="one pod per id, such as 1-100%%10: at most 10 at a time",
    )
    add(
        "--dependency",
        "-d",
        default="",
        metavar="LIST",
        help="start after other jobs: afterok:JOB, afternotok:JOB or afterany:JOB, separated by commas",
    )
    add(
        "--requeue",
        action="store_true",
        help=f"restart the job when a pod fails ({DEFAULT_REQUEUES} times, unless --retries is given)",
    )


def apply_options(job: Manifest, arguments: argparse.Namespace) -> Manifest:
    """The job with the options; raises UsageError."""
    annotations: dict[str, str] = {}
    spec = job["spec"]
    if arguments.time:
        seconds = parse_time(arguments.time)
        annotations[WALLTIME] = duration.format(seconds)
        if arguments.array:  # every element has its own limit
            spec["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"] = math.ceil(seconds)
        else:
            limit = {"event": "PodRunning", "action": "TerminateJob", "timeout": duration.format(seconds)}
            spec["policies"] = [*spec["policies"], limit]
    if arguments.dependency:
        with value_of("--dependency"):
            parse_dependencies(arguments.dependency)
        annotations[JOB_DEPENDENCY] = arguments.dependency
    if arguments.requeue:
        spec.setdefault("maxRetry", DEFAULT_REQUEUES)
        if not any(policy.get("event") == "PodFailed" for policy in spec["policies"]):
            spec["policies"] = [*spec["policies"], {"event": "PodFailed", "action": "RestartJob"}]
    if arguments.array:
        annotations |= _make_array(spec, arguments)
    if annotations:
        job["metadata"]["annotations"] = {**job["metadata"].get("annotations", {}), **annotations}
    return job


def _make_array(spec: Manifest, arguments: argparse.Namespace) -> dict[str, str]:
    """Turns the job into one pod per id; returns its annotations."""
    ids, together = parse_array(arguments.array)
    if arguments.workers != 1 or arguments.plugin or len(spec["tasks"]) != 1:
        raise UsageError("--array: every id is one pod; leave out --workers and --plugin")
    (task,) = spec["tasks"]
    task["replicas"] = len(ids)
    spec["minAvailable"] = 1
    # The elements are independent: one that is evicted or fails is restarted alone.
    spec["policies"] = [{**policy, "action": "RestartPod"} for policy in spec["policies"]]
    spec["plugins"] = {**spec.get("plugins", {}), "env": []}
    container = task["template"]["spec"]["containers"][0]
    container["command"] = ["/bin/sh", "-c", SELECT_ID, *container["command"]]
    container["env"] = [*container.get("env", []), {"name": ARRAY_IDS, "value": " ".join(map(str, ids))}]
    return {MAX_RUNNING_PODS: str(together)} if together else {}


def parse_array(text: str) -> tuple[list[int], int]:
    """`1-10:3,20%4` as ([1, 4, 7, 10, 20], 4). Raises UsageError."""
    body, percent, limit = text.partition("%")
    together = int(limit) if limit.isascii() and limit.isdigit() else 0
    if percent and not together:
        raise UsageError(f"--array: {text!r}: after % comes how many run at a time, such as 1-100%10")
    ids: list[int] = []
    for part in body.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part.strip())
        step = int(found[3] or 1) if found else 0
        if found is None or step == 0 or int(found[2] or found[1]) < int(found[1]):
            raise UsageError(f"--array: {part!r} must be an id or a range, such as 7, 1-100 or 0-30:10")
        more = range(int(found[1]), int(found[2] or found[1]) + 1, step)
        if len(ids) + len(more) > MOST_IDS:
            raise UsageError(f"--array: {text!r} has more than {MOST_IDS} ids")
        ids += more
    return list(dict.fromkeys(ids)), together


def parse_time(text: str) -> float:
    """Seconds of a walltime as people write it; raises UsageError."""
    with value_of("--time"):
        return walltime.parse(text)


def command_of_script(interpreter: Sequence[str], content: str, name: str, words: Sequence[str]) -> list[str]:
    """Runs a script's text, so that no file has to be there: shells and Python take it as an argument."""
    return [*interpreter, "-c", content, name, *words]

"""Validation of the names of jobs, and of those that pods, Services and volumes of a job get from them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcano.kube.api.manifest import Manifest
from volcano.webhooks.job.defaults import NEED_SVC
from volcano.webhooks.numbers import whole_number
from volcano.webhooks.review import Violation

QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LONGEST = 63
RULE = f"it must be at most {LONGEST} lower-case letters, digits or '-'"
# Plugins by the names that they derive from that of the job, for Services and volumes.
DERIVED = {"svc": "{}-svc", "ssh": "{}-ssh", "ray": "{}-head-svc"}


def check_names(name: str, spec: Mapping[str, Any], tasks: Sequence[Manifest]) -> Iterable[Violation]:
    """Validates the name of a job and those derived from it."""
    yield from check_pod_names(name, tasks)
    yield from check_host_names(name, spec, tasks)
    if not name:
        return
    if len(name) > LONGEST or not QUALIFIED.fullmatch(name):
        yield Violation("metadata.name", f"create job with name {name} validate failed; {RULE}")
        return
    plugins = _plugins(spec)
    if "." in name and (using := sorted(plugins & DERIVED.keys())):
        text = f"{name!r} must not contain dots: plugin {using[0]} names hosts, Services or volumes after the job"
        yield Violation("metadata.name", text)
    derived = [pattern.format(name) for plugin, pattern in DERIVED.items() if plugin in plugins]
    longest = max(derived, key=len, default="")
    if len(longest) > LONGEST:
        most = LONGEST - len(longest) + len(name)
        yield Violation(
            "metadata.name", f"must be at most {most} characters: {longest} is named after the job"
        )


def check_pod_names(job: str, tasks: Sequence[Manifest]) -> Iterable[Violation]:
    """Validates names of pods as Volcano does: with the position of the task as the index."""
    for index, task in enumerate(tasks):
        name = f"{job}-{task.get('name', '')}-{index}"
        if len(name) > LONGEST or not QUALIFIED.fullmatch(name):
            text = f"create pod with name {name} validate failed; {RULE}"
            yield Violation(f"spec.tasks[{index}].name", text)


def check_host_names(name: str, spec: Mapping[str, Any], tasks: Sequence[Manifest]) -> Iterable[Violation]:
    """The plugin svc names hosts after pods: the name of the last one is the longest."""
    if not name or "svc" not in _plugins(spec):
        return
    for index, task in enumerate(tasks):
        last = max(whole_number(task.get("replicas")) - 1, 0)
        host = f"{name}-{task.get('name', '')}-{last}"
        if len(host) > LONGEST and not ((task.get("template") or {}).get("spec") or {}).get("hostname"):
            text = f"the host name {host} of the last pod has {len(host)} characters; at most {LONGEST} are allowed"
            yield Violation(f"spec.tasks[{index}].name", text)


def _plugins(spec: Mapping[str, Any]) -> set[str]:
    """The plugins of a job, with those that others need."""
    plugins = set(spec.get("plugins") or {})
    if plugins.intersection(NEED_SVC):
        plugins.add("svc")
    return plugins | ({"ssh"} if "mpi" in plugins else set())

"""Match conditions of the webhooks: skip calls whose result is known in advance.

An API server without match conditions calls every time. Each expression holds for objects of any
structure: CEL evaluates `false && error` to false, so type guards come first.
"""

import json
from collections.abc import Collection, Iterable

from volcano.kube.kinds import JOB
from volcano.kube.manifest import Manifest
from volcano.kube.names import USER


def our_scheduler(names: Collection[str]) -> Manifest:
    """Pods of our scheduler; other pods need no call."""
    expression = f"has(object.spec.schedulerName) && object.spec.schedulerName in [{_quoted(sorted(names))}]"
    return {"name": "our-scheduler", "expression": expression}


def not_our_controllers(users: Collection[str]) -> Manifest:
    """Not PodGroups that our Job controller creates: it checks the queue itself."""
    owned = (
        f'object.metadata.ownerReferences.exists(o, o.kind == "Job" && o.apiVersion == "{JOB.api_version}")'
    )
    ours = f"request.userInfo.username in [{_quoted(sorted(users))}] && has(object.metadata.ownerReferences)"
    return {"name": "not-our-controllers", "expression": f"!({ours} && {owned})"}


def lacks_defaults() -> Manifest:
    """New jobs with an unset field or without a user; the others need no defaults."""
    return {
        "name": "something-is-open",
        "expression": f'request.operation != "CREATE" || !({_all(_COMPLETE_JOB)})',
    }


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(json.dumps(name) for name in names)


def _all(parts: Iterable[str]) -> str:
    return " && ".join(parts)


def _text(field: str) -> tuple[str, ...]:
    return (f"has({field})", f"type({field}) == string", f'{field} != ""')


def _number(field: str) -> tuple[str, ...]:
    return (f"has({field})", f"type({field}) == int")


def _counter(field: str) -> tuple[str, ...]:
    return (*_number(field), f"{field} != 0")


def _list(field: str, condition: str) -> tuple[str, ...]:
    return (f"has({field})", f"type({field}) == list", f"{field}.all({condition})")


_PLAIN_REQUESTS = (  # extended resources get limits; their names have a slash
    "type(c) == map",
    "(!has(c.resources) || type(c.resources) == map && (!has(c.resources.requests) || "
    'type(c.resources.requests) == map && c.resources.requests.all(r, !r.contains("/"))))',
)
_COMPLETE_TASK = (
    "type(t) == map",
    *_text("t.name"),
    *_counter("t.maxRetry"),
    *_number("t.minAvailable"),
    "has(t.template)",
    "type(t.template) == map",
    "has(t.template.spec)",
    "type(t.template.spec) == map",
    "!has(t.template.spec.hostNetwork)",
    "!has(t.template.spec.initContainers)",
    *_list("t.template.spec.containers", f"c, {_all(_PLAIN_REQUESTS)}"),
)
_PLUGINS_WITH_DEFAULTS = '["mpi", "pytorch", "ray", "tensorflow"].all(p, !(p in object.spec.plugins))'
_COMPLETE_JOB = (
    "has(object.metadata)",
    "type(object.metadata) == map",
    "has(object.metadata.annotations)",
    "type(object.metadata.annotations) == map",
    f'"{USER}" in object.metadata.annotations',
    "has(object.spec)",
    "type(object.spec) == map",
    *_text("object.spec.queue"),
    *_text("object.spec.schedulerName"),
    *_counter("object.spec.maxRetry"),
    *_counter("object.spec.minAvailable"),
    f"(!has(object.spec.plugins) || type(object.spec.plugins) == map && {_PLUGINS_WITH_DEFAULTS})",
    *_list("object.spec.tasks", f"t, {_all(_COMPLETE_TASK)}"),
)

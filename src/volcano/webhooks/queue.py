"""Defaults and validation of queues and of their hierarchy."""

import copy
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from volcano.accounting.budgets import parse_budgets
from volcano.kube.api.kinds import POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import (
    BUDGET,
    BUDGET_ACTION,
    DEFAULT_QUEUE,
    ENFORCE_WALLTIME,
    ROOT_QUEUE,
    USER_SHARES,
)
from volcano.kube.api.quantity import parse
from volcano.kube.resources.extended import is_extended
from volcano.model.annotations import notify
from volcano.model.annotations.user_shares import parse_shares
from volcano.webhooks.numbers import check_count
from volcano.webhooks.review import AdmissionRequest, Violation, annotations_in

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
BUDGET_ACTIONS = ("warn", "block")
STATES = ("Open", "Closed", "Closing", "Unknown")
Amounts = dict[str, Decimal]


def default_queue(request: AdmissionRequest) -> Manifest:
    """Sets weight, reclaimability and a hierarchy that starts at the root."""
    assert request.new is not None
    queue = copy.deepcopy(request.new)
    spec = queue["spec"] = queue.get("spec") or {}
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    spec["weight"] = spec.get("weight") or 1
    path, weights = annotations_in(queue).get(HIERARCHY), annotations_in(queue).get(WEIGHTS)
    if path and weights and path != ROOT_QUEUE and not path.startswith(f"{ROOT_QUEUE}/"):
        queue["metadata"]["annotations"] |= {HIERARCHY: f"{ROOT_QUEUE}/{path}", WEIGHTS: f"1/{weights}"}
    return queue


def check_queue(request: AdmissionRequest) -> Iterable[Violation]:
    """Validates a new or changed queue; later stages only when the earlier ones pass."""
    for stage in (_check_values, _check_budget, _check_parent, _check_root, _check_hierarchy):
        violations = list(stage(request))
        yield from violations
        if violations:
            return


def check_queue_deletion(request: AdmissionRequest) -> Iterable[Violation]:
    """Whether a queue may be deleted."""
    name = request.key.name
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        yield Violation("", f"`{name}` queue can not be deleted")
        return
    children = _children(request, name)
    if children:
        names = ", ".join(sorted(_name(child) for child in children))
        text = f"queue {name} can not be deleted because it has {len(children)} child queues: {names}"
        yield Violation("", text)
    if request.options.check_allocated_pods and request.old and _allocated_pods(request.old):
        yield Violation(
            "",
            f"queue {name} cannot be deleted because it has allocated Pods: {_allocated_pods(request.old)}",
        )


def _check_budget(request: AdmissionRequest) -> Iterable[Violation]:
    """The budget is a list such as `nvidia.com/gpu=1000h/month`, and its action is known."""
    annotations = annotations_in(_new(request))
    if BUDGET in annotations:
        try:
            parse_budgets(annotations[BUDGET])
        except ValueError as error:
            yield Violation(f"metadata.annotations[{BUDGET}]", str(error))
    action = annotations.get(BUDGET_ACTION, BUDGET_ACTIONS[0])
    if action not in BUDGET_ACTIONS:
        text = f"{action!r} is unknown; choose from {', '.join(BUDGET_ACTIONS)}"
        yield Violation(f"metadata.annotations[{BUDGET_ACTION}]", text)


def _check_values(request: AdmissionRequest) -> Iterable[Violation]:
    queue = _new(request)
    spec = queue.get("spec") or {}
    enforced = annotations_in(queue).get(ENFORCE_WALLTIME)
    if enforced not in (None, "true", "false"):
        text = f'must be "true" or "false" (it is {enforced!r})'
        yield Violation(f"metadata.annotations[{ENFORCE_WALLTIME}]", text)
    parts = {
        "spec.capability": spec.get("capability") or {},
        "spec.deserved": spec.get("deserved") or {},
        "spec.guarantee.resource": (spec.get("guarantee") or {}).get("resource") or {},
    }
    for path, resources in parts.items():
        for name, value in resources.items():
            amount = _amount(value)
            if amount is None:
                yield Violation(f"{path}[{name}]", f"{value!r} is no quantity such as 4, 500m or 16Gi")
            elif amount < 0:
                yield Violation(f"{path}[{name}]", f"{value} must be greater than or equal to 0")
            elif (name == "pods" or is_extended(name)) and amount != amount.to_integral_value():
                yield Violation(f"{path}[{name}]", f"{value} must be an integer: {name} are whole")
    yield from check_count(spec, "weight", "spec.weight", "queue weight must be a positive integer", least=1)
    capability, deserved, guarantee = (_amounts(resources) for resources in parts.values())
    if deserved:  # a guarantee alone is valid, as in the documented manifests
        for name, amount in guarantee.items():
            if amount > deserved.get(name, Decimal(0)):
                has = deserved.get(name, Decimal(0))
                text = f"deserved[{name}] must be >= guarantee[{name}]={amount}; it is {has}"
                yield Violation(f"spec.deserved[{name}]", text)
    for name in deserved.keys() & capability.keys():
        if deserved[name] > capability[name]:
            text = f"deserved[{name}]={deserved[name]} must be <= capability[{name}]={capability[name]}"
            yield Violation(f"spec.deserved[{name}]", text)
    for name in guarantee.keys() & capability.keys():
        if guarantee[name] > capability[name]:
            text = f"capability[{name}]={capability[name]} must be >= guarantee[{name}]={guarantee[name]}"
            yield Violation(f"spec.capability[{name}]", text)
    state = (queue.get("status") or {}).get("state") or "Open"
    if state not in STATES:
        yield Violation("status.state", f"queue state must be in [{' '.join(STATES)}], not {state!r}")
    yield from _check_hierarchy_annotations(request)
    yield from _check_user_shares(request)
    for name, problem in notify.problems(annotations_in(queue), of_queue=True):
        yield Violation(f"metadata.annotations[{name}]", problem)


def _check_user_shares(request: AdmissionRequest) -> Iterable[Violation]:
    try:
        parse_shares(annotations_in(_new(request)).get(USER_SHARES) or "")
    except ValueError as error:
        yield Violation(f"metadata.annotations[{USER_SHARES}]", str(error))


def _check_hierarchy_annotations(request: AdmissionRequest) -> Iterable[Violation]:
    annotations = annotations_in(_new(request))
    path, weights = annotations.get(HIERARCHY) or "", annotations.get(WEIGHTS) or ""
    if not path and not weights:
        return
    here = f"metadata.annotations[{WEIGHTS}]"
    if path.count("/") != weights.count("/"):
        text = f"{HIERARCHY} must have the same length with {WEIGHTS}: {path} and {weights}"
        yield Violation(here, text)
        return
    for weight in weights.split("/"):
        number = _weight(weight)
        if number is None:
            yield Violation(here, f"{weight} in the {weights} is invalid number: it must be such as 2 or 0.5")
        elif number <= 0:
            yield Violation(here, f"{weight} in the {weights} must be larger than 0")
    for other in request.lookup.all(QUEUE):
        theirs = annotations_in(other).get(HIERARCHY) or ""
        if _name(other) != request.key.name and theirs.startswith(f"{path}/"):
            text = f"{path} is not allowed to be in the sub path of {theirs} of queue {_name(other)}"
            yield Violation(f"metadata.annotations[{HIERARCHY}]", text)


def _weight(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_parent(request: AdmissionRequest) -> Iterable[Violation]:
    name, parent = request.key.name, _parent(_new(request))
    if request.old is not None and parent == _parent(request.old):
        return
    if name == ROOT_QUEUE and parent:
        yield Violation("spec.parent", f"the root queue has no parent (it is {parent!r}); leave it out")
    elif parent in ("", ROOT_QUEUE):
        return
    elif name == DEFAULT_QUEUE:
        text = f"the parent of queue {name} must be {ROOT_QUEUE}, not {parent!r}: every namespace may use it"
        yield Violation("spec.parent", text)
    elif parent == name:
        yield Violation("spec.parent", f"queue {name} cannot use itself as parent queue")
    else:
        yield from _check_new_parent(request, parent)


def _check_new_parent(request: AdmissionRequest, parent: str) -> Iterable[Violation]:
    """The parent exists, without a cycle and within the depth, and no jobs are in it."""
    name = request.key.name
    ancestor = parent_queue = request.lookup.find(QUEUE, Key("", parent))
    if parent_queue is None:
        text = f"failed to get parent queue of queue {name}: {parent!r} does not exist; create it first"
        yield Violation("spec.parent", text)
        return
    trail = [name]
    while ancestor is not None and _name(ancestor) != ROOT_QUEUE:
        if _name(ancestor) in trail:
            text = f"queues would form a cycle: {' -> '.join([*trail, _name(ancestor)])}"
            yield Violation("spec.parent", text)
            return
        trail.append(_name(ancestor))
        ancestor = request.lookup.find(QUEUE, Key("", _parent(ancestor) or ROOT_QUEUE))
    limit = request.options.max_queue_depth
    if len(trail) > limit:
        text = f"queue {name} at depth {len(trail)} exceeds the maximum allowed depth {limit}"
        yield Violation("spec.parent", text)
    if _children(request, parent):
        return
    text = f"queue {parent} cannot be the parent queue of queue {name} because"
    if pods := _allocated_pods(parent_queue):
        yield Violation("spec.parent", f"{text} it has allocated Pods: {pods}")
    elif groups := _pod_groups(request, parent):
        yield Violation("spec.parent", f"{text} of its PodGroups {', '.join(groups)}")


def _check_root(request: AdmissionRequest) -> Iterable[Violation]:
    if request.key.name != ROOT_QUEUE:
        return
    new, old = _new(request).get("spec") or {}, (request.old or {}).get("spec") or {}
    weight = new.get("weight") or 1
    if weight != 1 and (request.old is None or weight != old.get("weight")):
        yield Violation(
            "spec.weight", f"the weight of the root queue must be 1 (it is {weight}): it has no siblings"
        )
    if request.old is None or not request.options.protect_root_queue:
        return
    for part in ("capability", "deserved", "guarantee"):
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield Violation(f"spec.{part}", f"root queue's {part} cannot be modified")


def _check_hierarchy(request: AdmissionRequest) -> Iterable[Violation]:
    """Children stay within their parent, and no capability exceeds an ancestor's."""
    queue, name = _new(request), request.key.name
    if name == ROOT_QUEUE or not _shares_changed(request):
        return
    own = {part: _part(queue, part) for part in ("capability", "deserved", "guarantee")}
    parent_name = (queue.get("spec") or {}).get("parent") or ROOT_QUEUE
    if parent_name != ROOT_QUEUE:
        yield from _check_ancestors(request, parent_name, own["capability"])
        parent = request.lookup.find(QUEUE, Key("", parent_name)) or {}
        siblings = [q for q in _children(request, parent_name) if _name(q) != name]
        for part in ("guarantee", "deserved"):
            yield from _check_sum(
                part, [own[part], *(_part(q, part) for q in siblings)], _part(parent, part), parent_name
            )
    children = _children(request, name)
    largest = _largest_capability(request, name, frozenset((name,)))
    for resource, amount in own["capability"].items():
        if amount > 0 and largest.get(resource, Decimal(0)) > amount:
            text = f"{amount} is smaller than its descendants' max capability {largest[resource]}"
            yield Violation(f"spec.capability[{resource}]", text)
    if children:
        for part in ("guarantee", "deserved"):
            yield from _check_sum(part, [_part(child, part) for child in children], own[part], name)


def _check_ancestors(request: AdmissionRequest, parent: str, capability: Amounts) -> Iterable[Violation]:
    for resource, amount in capability.items():
        name, seen = parent, set[str]()
        while name not in ("", ROOT_QUEUE) and name not in seen:
            seen.add(name)
            ancestor = request.lookup.find(QUEUE, Key("", name)) or {}
            limit = _part(ancestor, "capability").get(resource, Decimal(0))
            if limit > 0:
                if amount > limit:
                    text = f"{amount} exceeds its ancestor's capability={limit} of queue {name}"
                    yield Violation(f"spec.capability[{resource}]", text)
                break
            name = (ancestor.get("spec") or {}).get("parent") or ROOT_QUEUE


def _check_sum(part: str, shares: list[Amounts], limit: Amounts, parent: str) -> Iterable[Violation]:
    for resource in sorted({resource for share in shares for resource in share}):
        total = sum((share.get(resource, Decimal(0)) for share in shares), Decimal(0))
        if total > limit.get(resource, Decimal(0)):
            has = limit.get(resource, Decimal(0))
            text = f"sum of children's {part}[{resource}]={total} exceeds parent's {part} limit: {parent} has {has}"
            yield Violation(f"spec.{part}", text)


def _largest_capability(request: AdmissionRequest, name: str, seen: frozenset[str]) -> Amounts:
    largest: Amounts = {}
    for child in _children(request, name):
        if _name(child) in seen:
            continue
        below = _largest_capability(request, _name(child), seen | {_name(child)})
        for amounts in (_part(child, "capability"), below):
            for resource, amount in amounts.items():
                largest[resource] = max(largest.get(resource, Decimal(0)), amount)
    return largest


def _shares_changed(request: AdmissionRequest) -> bool:
    if request.old is None:
        return True
    new, old = _new(request).get("spec") or {}, request.old.get("spec") or {}
    return any(new.get(part) != old.get(part) for part in ("parent", "capability", "deserved", "guarantee"))


def _new(request: AdmissionRequest) -> Manifest:
    assert request.new is not None
    return request.new


def _name(queue: Mapping[str, Any]) -> str:
    return str(queue["metadata"]["name"])


def _parent(queue: Mapping[str, Any]) -> str:
    return str((queue.get("spec") or {}).get("parent") or "")


def _children(request: AdmissionRequest, name: str) -> list[Manifest]:
    return [q for q in request.lookup.all(QUEUE) if (q.get("spec") or {}).get("parent") == name]


def _pod_groups(request: AdmissionRequest, queue: str) -> list[str]:
    """PodGroups of a queue that are not completed."""
    return [
        _name(group)
        for group in request.lookup.all(POD_GROUP)
        if (group.get("spec") or {}).get("queue") == queue
        and (group.get("status") or {}).get("phase") != "Completed"
    ]


def _allocated_pods(queue: Manifest) -> int:
    allocated = (queue.get("status") or {}).get("allocated") or {}
    return int(_amount(allocated.get("pods", 0)) or 0)


def _part(queue: Mapping[str, Any], part: str) -> Amounts:
    spec = queue.get("spec") or {}
    resources = (spec.get(part) or {}).get("resource") if part == "guarantee" else spec.get(part)
    return _amounts(resources or {})


def _amounts(resources: Mapping[str, Any]) -> Amounts:
    return {name: amount for name, value in resources.items() if (amount := _amount(value)) is not None}


def _amount(value: Any) -> Decimal | None:
    try:
        return parse(value)
    except ValueError:
        return None

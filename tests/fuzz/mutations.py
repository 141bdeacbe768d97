"""Seeded mutations of manifests and patches: values of the wrong type or size, missing and misplaced fields."""

import copy
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

from volcano.kube.api import names
from volcano.kube.api.manifest import Manifest

Path = tuple[str | int, ...]

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1,
    0.5, -0.0, 1e308, 5e-324, "", " ", "a", "x", "0", "-1", "01", "1Gi", "-1Gi", "1e3", "1E400", "1e-400",
    "1e999999999",
    "0.0000000000001", "9" * 30, "9" * 5000, "." * 50, "50%", "101%", "-5%", "NaN", "Infinity", "true", "null", "None",
    "a/b", "a/b/c", "/", "..", "../..", "a.b", "A_B", "-a", "a-", "é", "\u0000", "\u2028", "\U0001f600",
    "a\nb", "a\r\nb", "\u0665", "\u00b2",
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z", "2026",
    "10s", "1h30m", "-1s", "99999999999999999999h", "* * * * *", "*/0 * * * *", "0 0 31 2 *", "@every 1s",
    "1-5/0 * * * *", "0-2147483647", "0,5-3,x",
    "10.0.0.1", "::1", "10.0.0.0/33", "999.1.1.1", "http", "80", "$(A)", "$($(A))", "{{", "}}", "%s", "self.a > 1",
    ".spec.a", "$.a[?(@.b==1)]", "(a+)+$", "[", "\\", "^(?i)[a-z]$", "\\p{Lu}", "default", "kube-system", "fuzz",
    "root",
    "volcano", "v1", "apps/v1", "Pod", "Always", "Never", "a" * 64, "a" * 254, "a" * 5000, "a=b", "a in (b)", "!a",
)  # fmt: skip
CONTAINERS: tuple[Any, ...] = (
    [], {}, [None], [[]], [{}], [""], [0], ["a", "a"], [{"name": "a"}, {"name": "a"}], {"": ""}, {"a": None}, {"a": {}},
    {"a": "b"}, {"name": ""}, {"name": None}, {"name": {}}, {"name": []}, {"key": "k"}, {"matchLabels": {"a": "b"}},
    {"$patch": "delete"},
    {"$patch": "replace"}, {"$patch": []}, {"$retainKeys": [["a"]]}, {"$retainKeys": [{}]}, {"$retainKeys": "a"},
    {"$retainKeys": None},
    {"matchExpressions": [{"key": "a", "operator": "In", "values": None}]}, {"a\u0000": 1}, {"é": "é"}, {"a.b/c": "d"},
)  # fmt: skip
KEYS = (
    "", "name", "namespace", "kind", "apiVersion", "metadata", "spec", "status", "labels", "annotations", "uid",
    "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "ownerReferences",
    "managedFields", "generateName", "creationTimestamp", "selector", "template", "replicas", "conditions",
    "containers",
    "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "é",
    "a\u0000b", "f:name", ".",
)  # fmt: skip
KNOWN_ANNOTATIONS = sorted(
    {value for value in vars(names).values() if isinstance(value, str) and "/" in value}
    | {
        "deployment.kubernetes.io/revision",
        "batch.kubernetes.io/job-completion-index",
        "volcano.sh/task-priority",
    }
)
WRONG_STEPS: tuple[str | int, ...] = (*KEYS[:8], "-", 0, -1, 99999999999, "0", "00")
SPOTS = (1, 1, 1, 2, 3, 4)  # places that are changed


class Mutator:
    """Mutates manifests; the same seed gives the same mutations."""

    def __init__(self, random: Random, samples: list[Manifest]) -> None:
        self.random = random
        self._keys = sorted({*KEYS, *(key for sample in samples for key in _all_keys(sample))})
        self._subtrees = [
            value for sample in samples for _, value in _spots(sample) if isinstance(value, dict | list)
        ]

    def value(self) -> Any:
        """Any value, rarely a large one."""
        chance = self.random.random()
        if chance < 0.55:
            return self.random.choice(SCALARS)
        if chance < 0.85:
            return copy.deepcopy(self.random.choice(CONTAINERS))
        if chance < 0.99:
            return copy.deepcopy(self.random.choice(self._subtrees))
        return self._large()

    def mutated(self, value: Any) -> Any:
        """A copy with up to four places changed."""
        result = copy.deepcopy(value)
        for _ in range(self.random.choice(SPOTS)):
            spots = [path for path, _ in _spots(result)]
            if not spots:
                return result
            self._mutate(result, self._chosen(spots))
        return result

    def path(self, value: Any) -> Path:
        """A path of the value, or a wrong one."""
        spots = [path for path, _ in _spots(value)] or [()]
        path = self._chosen(spots) if spots != [()] else ()
        if self.random.random() < 0.3:
            return (*path, self.random.choice(WRONG_STEPS))
        return path

    def _chosen(self, spots: list[Path]) -> Path:
        # Half of the time a place near the top, where there are few.
        near = [path for path in spots if len(path) <= 3]
        return self.random.choice(near if near and self.random.random() < 0.5 else spots)

    def _mutate(self, root: Any, path: Path) -> None:
        holder = at(root, path[:-1])
        last: Any = path[-1]
        chance = self.random.random()
        if chance < 0.2:
            del holder[last]
        elif chance < 0.3 and isinstance(holder, dict):
            holder[self.random.choice(self._keys)] = holder.pop(last)
        elif chance < 0.4 and isinstance(holder[last], dict):
            holder[last][self.random.choice(self._keys)] = self.value()
        elif chance < 0.45 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
        elif chance < 0.47 and isinstance(root, dict):
            self._annotate(root)
        elif chance < 0.5:
            holder[last] = [holder[last]] if self.random.random() < 0.5 else {"a": holder[last]}
        else:
            holder[last] = self.value()

    def _annotate(self, root: Any) -> None:
        """Sets an annotation or label that a component reads."""
        metadata = root.setdefault("metadata", {})
        if isinstance(metadata, dict):
            where = metadata.setdefault(self.random.choice(["annotations", "labels"]), {})
            if isinstance(where, dict):
                where[self.random.choice(KNOWN_ANNOTATIONS)] = str(self.random.choice(SCALARS))

    def _large(self) -> Any:
        match self.random.randrange(5):
            case 0:
                return "a" * 70_000
            case 1:
                return [{"name": f"n{i}"} for i in range(1000)]
            case 2:
                return {f"k{i}": "v" for i in range(2000)}
            case 3:
                return nested(self.random.choice([60, 100, 120, 130, 200]))
            case _:
                return [self.random.choice(SCALARS) for _ in range(500)]


def nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _spots(value: Any, limit: int = 200) -> list[tuple[Path, Any]]:
    """Paths and values of a value, the first ones of a large one."""
    found: list[tuple[Path, Any]] = []
    left: deque[tuple[Path, Any]] = deque([((), value)])
    while left and len(found) < limit:
        path, current = left.popleft()
        for step, child in _children(current):
            spot = ((*path, step), child)
            found.append(spot)
            if isinstance(child, dict | list):
                left.append(spot)
    return found


def _children(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _all_keys(value: Any) -> Iterator[str]:
    return (str(path[-1]) for path, _ in _spots(value) if isinstance(path[-1], str))

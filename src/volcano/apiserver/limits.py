"""Limits of objects, in bodies and after patches: how deep they are nested, and how many values they have."""

from typing import Any

from volcano.base.yaml_loader import YamlLimits
from volcano.kube.api.errors import BadRequest, TooLarge
from volcano.kube.api.kinds import CRD

YAML_LIMITS = YamlLimits()
MAX_DEPTH = YAML_LIMITS.depth  # the encoder stops at 254, and validation recurses
# Fields and list items: validation takes up to 20 us for each. In YAML, keys count too.
MAX_VALUES = YAML_LIMITS.values // 2
# The schemas of some operators are larger (Argo's Workflow: 57,000), and only administrators write them.
MAX_VALUES_OF_CRDS = 2 * MAX_VALUES
MIN_BYTES_PER_VALUE = 2  # a digit and a comma


def check_json(body: bytes, value: Any) -> None:
    """Rejects a value, decoded from `body`, that exceeds a limit."""
    brackets = body.count(b"{") + body.count(b"[")
    if brackets > MAX_DEPTH:  # fewer cannot be nested deeper
        check_depth(value)
    if len(body) > MAX_VALUES * MIN_BYTES_PER_VALUE:
        check_values(value)


def check_depth(value: Any) -> None:
    """Rejects values that are nested deeper than can be encoded and validated."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise BadRequest(f"json parse error: exceeded max depth of {MAX_DEPTH}")


def check_values(value: Any) -> None:
    """Rejects objects with too many fields and list items; managed fields do not count."""
    left, count = [value], 0
    is_crd = isinstance(value, dict) and value.get("kind") == CRD.kind
    limit = MAX_VALUES_OF_CRDS if is_crd else MAX_VALUES
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if isinstance(metadata, dict) and "managedFields" in metadata:
        left = [{**value, "metadata": {**metadata, "managedFields": None}}]
    while left:
        current = left.pop()
        if isinstance(current, dict | list):
            count += len(current)
            if count > limit:
                raise TooLarge(f"Request entity too large: limit is {limit} fields and list items")
            left.extend(current.values() if isinstance(current, dict) else current)

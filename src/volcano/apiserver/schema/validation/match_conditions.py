"""Validation of the match conditions of webhooks."""

from volcano.apiserver.schema.match_conditions import compile_match_condition
from volcano.apiserver.schema.validation import field
from volcano.apiserver.schema.validation.field import Causes
from volcano.kube.api.formats.names import qualified_name
from volcano.kube.api.manifest import Manifest
from volcano.kube.cel.program import InvalidExpression

MOST_CONDITIONS = 64


def match_conditions(hook: Manifest, path: str) -> Causes:
    """Validates the match conditions of one webhook: names, and that every expression compiles."""
    conditions = hook.get("matchConditions") or ()
    if len(conditions) > MOST_CONDITIONS:
        yield field.too_many(f"{path}.matchConditions", len(conditions), MOST_CONDITIONS)
        return
    seen: set[str] = set()
    for where, condition in field.items(hook, "matchConditions", path):
        name = condition.get("name") or ""
        if not name:
            yield field.required(f"{where}.name")
        elif name in seen:
            yield field.duplicate(f"{where}.name", name)
        else:
            yield from field.each(f"{where}.name", name, qualified_name(name))
        seen.add(name)
        source = (condition.get("expression") or "").strip()
        if not source:
            yield field.required(f"{where}.expression")
            continue
        try:
            compile_match_condition(source)
        except InvalidExpression as error:
            yield field.invalid(f"{where}.expression", condition["expression"], str(error))

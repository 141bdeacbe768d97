"""CEL validation rules of CRDs (x-kubernetes-validations): expressions over `self` and `oldSelf`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.schema.validation import field
from volcano.kube.api.errors import Cause
from volcano.kube.cel import types
from volcano.kube.cel.declarations import Declaration, declare
from volcano.kube.cel.errors import CostLimitExceeded, EvaluationError
from volcano.kube.cel.program import CALL_LIMIT, InvalidExpression, Program
from volcano.kube.cel.values import NONE, Optional

REASONS = ("FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate")
# Most cost of all rules for one object: half of kube-apiserver's, because evaluation occupies the event loop.
OBJECT_LIMIT = 5_000_000
LONGEST_MESSAGE = 5 * 1024
_MISSING = object()


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One entry of x-kubernetes-validations."""

    program: Program
    message: str
    message_program: Program | None
    reason: str
    field_path: str
    optional_old: bool

    @property
    def uses_old(self) -> bool:
        return "oldSelf" in self.program.variables

    @property
    def shown(self) -> str:
        return self.message or self.program.source


class _Budget:
    """Remaining cost for one object. Once it is used up no further rules are evaluated."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def exhaust(self) -> None:
        self.left = -1

    @property
    def exhausted(self) -> bool:
        return self.left < 0


class ValidationRules:
    """Validation rules of a schema and of its subschemas."""

    __slots__ = ("_additional", "_convert", "_items", "_keys", "_own", "_properties", "_type")

    def __init__(self, schema: Mapping[str, Any], own: list[ValidationRule], convert: Any) -> None:
        self._own = own
        self._type = str(schema.get("type") or "")
        self._convert = convert
        self._properties = _property_rules(schema.get("properties"))
        extra = schema.get("additionalProperties")
        self._additional = compile_rules(extra) if isinstance(extra, Mapping) else None
        self._items = compile_rules(schema.get("items"))
        self._keys: tuple[str, ...] | None = None
        if schema.get("x-kubernetes-list-type") == "map":
            self._keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())

    @property
    def empty(self) -> bool:
        return not (self._own or self._properties or self._additional or self._items)

    def causes(self, value: Any, old: Any = None, limit: int = OBJECT_LIMIT) -> list[Cause]:
        """Evaluates the rules for an object that is valid against its schema."""
        return list(self._evaluate(value, _MISSING if old is None else old, "", _Budget(limit)))

    def _evaluate(self, value: Any, old: Any, path: str, budget: _Budget) -> Iterator[Cause]:
        if value is None or budget.exhausted:
            return
        if self._own:
            yield from self._evaluate_own(value, old, path, budget)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, item in value.items():
                rules = self._properties.get(name, self._additional)
                if rules is not None:
                    inner = f"{path}.{name}" if path else name
                    yield from rules._evaluate(item, before.get(name, _MISSING), inner, budget)
        elif isinstance(value, list) and self._items is not None:
            others = self._by_identity(old)
            for index, item in enumerate(value):
                other = others.get(self._identity(item), _MISSING) if others else _MISSING
                yield from self._items._evaluate(item, other, f"{path}[{index}]", budget)

    def _by_identity(self, old: Any) -> dict[str, Any]:
        """Old items by their map keys; only items of lists of type map are correlatable."""
        if self._keys is None or not isinstance(old, list):
            return {}
        return {self._identity(item): item for item in old if isinstance(item, dict)}

    def _identity(self, item: Any) -> str:
        return repr([item.get(key) for key in self._keys or ()]) if isinstance(item, dict) else ""

    def _evaluate_own(self, value: Any, old: Any, path: str, budget: _Budget) -> Iterator[Cause]:
        try:
            variables = self._variables(value, old)
        except EvaluationError as error:
            yield field.invalid(path, self._type, str(error))
            return
        has_old = "oldSelf" in variables
        unchanged = old is not _MISSING and old == value
        for rule in self._own:
            if rule.optional_old:
                given = {**variables, "oldSelf": Optional(variables["oldSelf"]) if has_old else NONE}
            elif rule.uses_old:
                if not has_old:
                    continue
                given = dict(variables)
            else:
                if unchanged:
                    continue  # validation ratcheting: an unchanged value was accepted before
                given = dict(variables)
            cause = self._evaluate_rule(rule, given, value, path, budget)
            if cause is not None:
                yield cause
            if budget.exhausted:
                return

    def _variables(self, value: Any, old: Any) -> dict[str, Any]:
        convert = self._convert
        variables = {"self": convert(value) if convert else value}
        if old is not _MISSING and old is not None:
            variables["oldSelf"] = convert(old) if convert else old
        return variables

    def _evaluate_rule(
        self, rule: ValidationRule, variables: dict[str, Any], value: Any, path: str, budget: _Budget
    ) -> Cause | None:
        try:
            result, cost = rule.program.evaluate(variables, CALL_LIMIT)
        except CostLimitExceeded as error:
            budget.exhaust()
            text = (
                f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
                f"{rule.shown}"
            )
            return field.invalid(path, self._type, text)
        except EvaluationError as error:
            return field.invalid(path, self._type, _failure(error, rule))
        budget.left -= cost
        if budget.exhausted:
            text = (
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            return field.invalid(path, self._type, text)
        if result is True:
            return None
        where = f"{path}{rule.field_path}".removeprefix(".") if rule.field_path else path
        return self._cause(rule.reason, where, value, self._detail(rule, variables, budget))

    def _cause(self, reason: str, where: str, value: Any, detail: str) -> Cause:
        is_scalar = self._type not in ("object", "array")
        if reason == "FieldValueForbidden":
            return field.forbidden(where, detail)
        if reason == "FieldValueRequired":
            return field.required(where, detail)
        if reason == "FieldValueDuplicate":
            shown = f": {field.shown(value)}" if is_scalar else ""
            return Cause(reason, f"Duplicate value{shown}", where)
        if is_scalar:
            return field.invalid(where, value, detail)
        return Cause("FieldValueInvalid", f"Invalid value: {detail}", where)

    @staticmethod
    def _detail(rule: ValidationRule, variables: dict[str, Any], budget: _Budget) -> str:
        if rule.message_program is not None:
            try:
                text, cost = rule.message_program.evaluate(variables, min(budget.left, CALL_LIMIT))
            except (EvaluationError, CostLimitExceeded):  # fall back to `message`
                text, cost = None, 0
            budget.left -= cost
            if isinstance(text, str) and text.strip() and "\n" not in text and len(text) <= LONGEST_MESSAGE:
                return text.strip()
        return rule.message or f"failed rule: {rule.program.source}"


def _failure(error: EvaluationError, rule: ValidationRule) -> str:
    if str(error) == "no such overload":
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature for "
            f"rule: {rule.shown}"
        )
    return f"{error} evaluating rule: {rule.shown}"


def compile_rules(schema: Any, *, root: bool = False) -> ValidationRules | None:
    """Compiles the rules of a schema and its subschemas; None if there are none. Raises `InvalidExpression`."""
    if not isinstance(schema, Mapping):
        return None
    own: list[ValidationRule] = []
    convert = None
    if schema.get("x-kubernetes-validations"):
        declaration = declaration_for_rules(schema, root=root)
        convert = declaration.convert
        own = [compile_rule(rule, declaration) for rule in schema["x-kubernetes-validations"]]
    rules = ValidationRules(schema, own, convert)
    return None if rules.empty else rules


def declaration_for_rules(schema: Mapping[str, Any], *, root: bool) -> Declaration:
    """Declaration of `self`. Raises `InvalidExpression`."""
    declaration = declare(schema, root=root or bool(schema.get("x-kubernetes-embedded-resource")))
    if declaration is None:
        kind = schema.get("type") or ""
        preserves = str(bool(schema.get("x-kubernetes-preserve-unknown-fields"))).lower()
        raise InvalidExpression(
            f"rule declared on schema that does not support validation rules type: '{kind}' "
            f"x-kubernetes-preserve-unknown-fields: '{preserves}'"
        )
    return declaration


def compile_rule(rule: Mapping[str, Any], declaration: Declaration) -> ValidationRule:
    """Compiles one rule. Raises `InvalidExpression`."""
    variables = rule_variables(rule, declaration)
    message = str(rule.get("messageExpression") or "").strip()
    return ValidationRule(
        compile_condition(str(rule.get("rule") or "").strip(), variables),
        str(rule.get("message") or ""),
        compile_message(message, variables) if message else None,
        str(rule.get("reason") or "FieldValueInvalid"),
        str(rule.get("fieldPath") or ""),
        bool(rule.get("optionalOldSelf")),
    )


def rule_variables(rule: Mapping[str, Any], declaration: Declaration) -> dict[str, Declaration]:
    """Variables of a rule; `oldSelf` may be an optional."""
    old = declaration
    if rule.get("optionalOldSelf"):
        old = Declaration(
            types.optional_of(declaration.type),
            declaration.max_elements,
            declaration.min_size,
            declaration.key,
            declaration.element,
            declaration.fields,
        )
    return {"self": declaration, "oldSelf": old}


def compile_condition(source: str, variables: Mapping[str, Declaration]) -> Program:
    """Compiles an expression that must be a bool. Raises `InvalidExpression`."""
    program = Program(source, variables)
    if program.result not in (types.BOOL, types.DYN):
        raise InvalidExpression("cel expression must evaluate to a bool")
    return program


def compile_message(source: str, variables: Mapping[str, Declaration]) -> Program:
    """Compiles an expression that must be a string. Raises `InvalidExpression`."""
    try:
        program = Program(source, variables)
    except InvalidExpression as error:
        raise InvalidExpression(f"messageExpression {error}") from None
    if program.result not in (types.STRING, types.DYN):
        raise InvalidExpression("messageExpression must evaluate to a string")
    return program


def _property_rules(properties: Any) -> dict[str, ValidationRules]:
    compiled = ((name, compile_rules(sub)) for name, sub in (properties or {}).items())
    return {name: rules for name, rules in compiled if rules is not None}

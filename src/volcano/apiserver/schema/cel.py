"""CEL validation rules of CRDs (x-kubernetes-validations): expressions over `self` and `oldSelf`."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import cel

from volcano.apiserver.schema.cel_functions import FUNCTIONS, OPTIONAL_SELECT
from volcano.apiserver.schema.validation import field
from volcano.kube import duration
from volcano.kube.errors import Cause

# Functions and macros the CEL engine provides.
_NATIVE = frozenset(
    {
        "size", "contains", "startsWith", "endsWith", "matches", "has", "all", "exists", "exists_one", "map", "filter",
        "int", "uint", "double", "string", "bytes", "timestamp", "duration", "dyn", "type", "bool", "hasValue", "value",
        "orValue", "or", "optional.of", "optional.none", "optional.ofNonZeroValue", "getDate", "getDayOfMonth",
        "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth",
        "getSeconds", "optMap", "optFlatMap",
    }
)  # fmt: skip
REASONS = ("FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate")
# Escapes for property names that are not CEL identifiers.
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
# Functions are called by their full name, or as methods by the last part of it.
_KNOWN = frozenset(FUNCTIONS) | {name.rpartition(".")[2] for name in FUNCTIONS}
# Variables bound by macros, as in `self.all(item, ...)`.
_BOUND = re.compile(r"\.(?:all|exists|exists_one|existsOne|map|filter|optMap|optFlatMap)\(\s*(\w+)\s*,")
_OLD_SELF = re.compile(r"\boldSelf\b")
_MISSING = object()
# Errors of the engine while evaluating: a missing key, a wrong type, an overflow and the like.
_ENGINE_ERRORS = (RuntimeError, ValueError, LookupError, TypeError, ArithmeticError)
_TYPE_NAMES = frozenset(
    {"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"}
)
_NAMESPACES = frozenset({"math", "strings", "sets", "base64", "lists", "format", "optional", "ip"})


class RuleCompilationError(ValueError):
    """Error for a rule that does not compile."""


class Expression:
    """A compiled CEL expression."""

    __slots__ = ("_functions", "_program", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        try:
            self._program = cel.compile(_rewrite_optionals(source))
        except ValueError as error:
            raise RuleCompilationError(f"compilation failed: {error}") from None
        called = {name for name in self._program.functions() if not name.startswith(("_", "!", "-", "@"))}
        bound = {"self", "oldSelf", *_BOUND.findall(source)}
        unknown = sorted(called - _NATIVE - _KNOWN)
        unknown += sorted(set(self._program.variables()) - bound - _NAMESPACES - _TYPE_NAMES)
        if unknown:
            raise RuleCompilationError(
                f"compilation failed: undeclared reference to '{unknown[0]}' (in container '')"
            )
        self._functions = {
            name: function for name, function in FUNCTIONS.items() if name.rpartition(".")[2] in called
        }

    def __call__(self, variables: Mapping[str, Any]) -> Any:
        """Evaluates the expression; raises one of the engine's errors if it has no value."""
        context = cel.Context(variables=dict(variables))
        for name, function in self._functions.items():
            context.add_function(name, function)
        return self._program.execute(context)


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One entry of x-kubernetes-validations."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str
    uses_old: bool
    optional_old: bool


class ValidationRules:
    """Validation rules of a schema and of its subschemas."""

    __slots__ = ("_additional", "_convert", "_items", "_keys", "_own", "_properties", "_scalar")

    def __init__(self, schema: Mapping[str, Any], own: list[ValidationRule]) -> None:
        self._own = own
        self._scalar = schema.get("type") not in ("object", "array")
        self._convert = _converter(schema) if own else None
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

    def causes(self, value: Any, old: Any = None) -> list[Cause]:
        """Evaluates the rules for an object that is valid against its schema."""
        return list(self._evaluate(value, _MISSING if old is None else old, ""))

    def _evaluate(self, value: Any, old: Any, path: str) -> Iterator[Cause]:
        if value is None:
            return
        if self._own:
            yield from self._evaluate_own(value, old, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, item in value.items():
                rules = self._properties.get(name, self._additional)
                if rules is not None:
                    yield from rules._evaluate(
                        item, before.get(name, _MISSING), f"{path}.{name}" if path else name
                    )
        elif isinstance(value, list) and self._items is not None:
            for index, item in enumerate(value):
                yield from self._items._evaluate(item, self._correlated(item, old), f"{path}[{index}]")

    def _correlated(self, item: Any, old: Any) -> Any:
        """Old item with the same map keys; only items of lists of type map are correlatable."""
        if self._keys is None or not isinstance(old, list) or not isinstance(item, dict):
            return _MISSING
        identity = [item.get(key) for key in self._keys]
        for other in old:
            if isinstance(other, dict) and [other.get(key) for key in self._keys] == identity:
                return other
        return _MISSING

    def _evaluate_own(self, value: Any, old: Any, path: str) -> Iterator[Cause]:
        convert = self._convert
        variables: dict[str, Any] = {"self": convert(value) if convert else value}
        before = _MISSING if old is _MISSING or old is None else (convert(old) if convert else old)
        unchanged = old is not _MISSING and old == value
        for rule in self._own:
            if rule.optional_old:
                wrapped = cel.OptionalValue.none() if before is _MISSING else cel.OptionalValue.of(before)
                given = {**variables, "oldSelf": wrapped}
            elif rule.uses_old:
                if before is _MISSING:
                    continue
                given = {**variables, "oldSelf": before}
            else:
                if unchanged:
                    continue  # validation ratcheting: an unchanged value was accepted before
                given = variables
            cause = self._evaluate_rule(rule, given, value, path)
            if cause is not None:
                yield cause

    def _evaluate_rule(
        self, rule: ValidationRule, variables: Mapping[str, Any], value: Any, path: str
    ) -> Cause | None:
        type_name = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "string"
        try:
            if rule.expression(variables) is True:
                return None
        except _ENGINE_ERRORS as error:
            text = f"{_engine_error(error)} evaluating rule: {rule.message or rule.expression.source}"
            return field.invalid(path, type_name, text)
        where = f"{path}{rule.field_path}".removeprefix(".") if rule.field_path else path
        detail = self._detail(rule, variables)
        if rule.reason == "FieldValueForbidden":
            return field.forbidden(where, detail)
        if rule.reason == "FieldValueRequired":
            return field.required(where, detail)
        if rule.reason == "FieldValueDuplicate":
            shown = f": {field.shown(value)}" if self._scalar else ""
            return Cause(rule.reason, f"Duplicate value{shown}", where)
        if self._scalar:
            return field.invalid(where, value, detail)
        return Cause("FieldValueInvalid", f"Invalid value: {detail}", where)

    @staticmethod
    def _detail(rule: ValidationRule, variables: Mapping[str, Any]) -> str:
        if rule.message_expression is not None:
            try:
                text = rule.message_expression(variables)
            except _ENGINE_ERRORS:  # fall back to `message`
                text = None
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        return rule.message or f"failed rule: {rule.expression.source}"


def compile_rules(schema: Any) -> ValidationRules | None:
    """Compiles the rules of a schema and its subschemas; None if there are none. Raises `RuleCompilationError`."""
    if not isinstance(schema, Mapping):
        return None
    rules = ValidationRules(
        schema, [compile_rule(rule) for rule in schema.get("x-kubernetes-validations") or ()]
    )
    return None if rules.empty else rules


def compile_rule(rule: Mapping[str, Any]) -> ValidationRule:
    """Compiles one rule. Raises `RuleCompilationError`."""
    source = str(rule.get("rule") or "").strip()
    message_expression = str(rule.get("messageExpression") or "").strip()
    return ValidationRule(
        Expression(source),
        str(rule.get("message") or ""),
        Expression(message_expression) if message_expression else None,
        str(rule.get("reason") or "FieldValueInvalid"),
        str(rule.get("fieldPath") or ""),
        _OLD_SELF.search(source) is not None,
        bool(rule.get("optionalOldSelf")),
    )


def _property_rules(properties: Any) -> dict[str, ValidationRules]:
    compiled = ((name, compile_rules(sub)) for name, sub in (properties or {}).items())
    return {name: rules for name, rules in compiled if rules is not None}


def _engine_error(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0] if error.args else ''}"
    return str(error)


# -- conversion of values to CEL -------------------------------------------------------------------------------------


def _converter(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Converter of values to CEL: times and durations typed, property names escaped. None if no value changes."""
    kind, name = schema.get("type"), str(schema.get("format", "")).replace("-", "")
    if kind == "string" and name in _TYPED:
        return _TYPED[name]
    if kind == "array":
        item = _converter(schema.get("items") or {})
        return None if item is None else lambda value: [item(each) for each in value]
    if kind != "object":
        return None
    properties = schema.get("properties") or {}
    steps = {key: step for key, sub in properties.items() if (step := _converter(sub)) is not None}
    names = {key: escaped for key in properties if (escaped := _escaped(key)) != key}
    extra = schema.get("additionalProperties")
    others = _converter(extra) if isinstance(extra, Mapping) else None
    if not steps and not names and others is None:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        converted = {}
        for key, item in value.items():
            step = steps.get(key, None if key in properties else others)
            converted[names.get(key, key)] = step(item) if step is not None and item is not None else item
        return converted

    return convert


def _duration(text: str) -> timedelta:
    return timedelta(seconds=duration.parse(text))


_TYPED: Mapping[str, Callable[[str], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": datetime.fromisoformat,
    "duration": _duration,
}


def _escaped(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return name


def _rewrite_optionals(source: str) -> str:
    """Rewrites `x.?name` and `x[?key]`, which the engine does not parse, to calls of `OPTIONAL_SELECT`."""
    while (at := source.find(".?")) >= 0:
        start = _operand_start(source, at)
        name = re.match(r"\w+", source[at + 2 :])
        if name is None:
            break
        end = at + 2 + name.end()
        source = f'{source[:start]}{OPTIONAL_SELECT}({source[start:at]}, "{name[0]}"){source[end:]}'
    while (at := source.find("[?")) >= 0:
        start = _operand_start(source, at)
        end = source.find("]", at)
        if end < 0:
            break
        source = f"{source[:start]}{OPTIONAL_SELECT}({source[start:at]}, {source[at + 2 : end]}){source[end + 1 :]}"
    return source


def _operand_start(source: str, end: int) -> int:
    """Start of the operand that ends before `end`: names, dots, calls and indexes to its left."""
    depth, at = 0, end
    while at > 0:
        character = source[at - 1]
        if character in ")]":
            depth += 1
        elif character in "([":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and not (character.isalnum() or character in "_.\"'"):
            break
        at -= 1
    return at

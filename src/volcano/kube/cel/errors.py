"""Errors of CEL: an expression that does not compile, an evaluation without a value, a cost limit exceeded."""

from typing import NamedTuple


class Issue(NamedTuple):
    """A problem at an offset of the source."""

    offset: int
    message: str


class CompilationError(ValueError):
    """The expression does not compile. The text shows each problem with its place, as cel-go does."""

    def __init__(self, source: str, issues: list[Issue]) -> None:
        super().__init__("\n".join(_shown(source, issue) for issue in issues))


class SourceTooLarge(ValueError):
    """The expression is too long or nested too deeply to be parsed."""


class EvaluationError(Exception):
    """The expression has no value: a missing key, a division by zero and the like."""


class CostLimitExceeded(Exception):
    """The evaluation was stopped because it exceeded its cost limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")


def _shown(source: str, issue: Issue) -> str:
    """`ERROR: <input>:line:column: message`, the line, and a mark below the column."""
    before = source[: issue.offset]
    line, column = before.count("\n") + 1, issue.offset - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1].replace("\t", " ")
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {text}\n | {'.' * column}^"

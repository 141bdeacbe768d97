"""Log messages are constant strings, so that operators can search for them; everything else is a field."""

import ast
from collections.abc import Iterator
from pathlib import Path

import volcano

ROOT = Path(volcano.__file__).parent
LEVELS = {"debug", "info", "warning", "error"}
# Chooses among messages that are constants of the module, to limit their number per cycle.
CHOOSING = {"scheduler/report/log_lines.py"}


def log_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level)) if level in LEVELS:
                yield node


def test_log_messages_are_constant() -> None:
    variable = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in ROOT.rglob("*.py")
        if str(path.relative_to(ROOT)) not in CHOOSING
        for call in log_calls(path)
        if len(call.args) != 1
        or not (isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str))
    ]
    assert variable == []


def test_log_messages_say_what_happened_to_what() -> None:
    single_words = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {message.value!r}"
        for path in ROOT.rglob("*.py")
        for call in log_calls(path)
        for message in call.args
        if isinstance(message, ast.Constant) and " " not in str(message.value)
    ]
    assert single_words == []

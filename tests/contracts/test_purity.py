"""Time, randomness and waiting are arguments: controllers call none of them by themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import volcano

ROOT = Path(volcano.__file__).parent
FORBIDDEN = {
    "time.time",
    "time.monotonic",
    "time.sleep",
    "time.perf_counter",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "random.random",
    "random.choice",
    "random.choices",
    "random.randint",
    "uuid.uuid4",
    "uuid4",
    "asyncio.sleep",
    "secrets.token_urlsafe",
    "os.urandom",
}
# The edge to the system: programs, sockets, files, and the few drivers that let other tasks run.
EDGE = (
    "base/clock.py",
    "base/gc_policy.py",
    "base/http/",
    "kube/client/",
    "component/",
    "cmd/",
    "cli/volcano/",
    "embedded/",
    "sdk/",
    "dashboard/",
)
# `asyncio.sleep(0)` lets other tasks run without waiting.
YIELDING = {"asyncio.sleep"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """The calls of imported names in a module; a parameter called `random` is not one."""
    tree = ast.parse(path.read_text())
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)).split(".")[0] in imported:
            yield name, node


def is_yield(name: str, call: ast.Call) -> bool:
    return name in YIELDING and [ast.unparse(argument) for argument in call.args] == ["0"]


def test_controllers_take_time_and_chance_as_arguments() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{call.lineno} calls {name}"
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(EDGE)
        for name, call in calls(path)
        if name in FORBIDDEN and not is_yield(name, call)
    ]
    assert offenders == []


def test_the_rule_would_catch_an_offender(tmp_path: Path) -> None:
    offender = tmp_path / "controller.py"
    offender.write_text("import time\n\ndef due() -> float:\n    return time.time() + 1\n")
    assert [name for name, _ in calls(offender) if name in FORBIDDEN] == ["time.time"]

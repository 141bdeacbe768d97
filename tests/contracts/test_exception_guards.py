"""Broad exception handlers stand only at named guards, where a bug in one item must not stop a long-running loop."""

import ast
from collections.abc import Iterator
from pathlib import Path

import volcano

ROOT = Path(volcano.__file__).parent
BROAD = {"Exception", "BaseException"}
# Functions with a broad handler, by module, and the reason for each.
GUARDS: dict[str, dict[str, str]] = {
    "webhooks/webhook.py": {"__call__": "a bug denies the request with a reason instead of a timeout"},
    "dashboard/context.py": {"_run": "a bug in one part of a page must not stop the updates of the others"},
    "dashboard/sampler.py": {"run": "an object that cannot be read must not end the samples of all others"},
    "apiserver/server.py": {"__call__": "a bug in one request must not end the server"},
    "apiserver/registry/kind_table.py": {"resync": "one CRD that cannot be served must not hide the others"},
    "apiserver/storage/listeners.py": {
        "_resync": "a listener's bug must not become the writer's error; tried again later",
        "notify": "a listener's bug must not become the writer's error",
    },
    "apiserver/storage/store.py": {
        "_wake_watchers": "a bug in one watch must not delay the others or fail the write",
        "put": "a cache's bug must not become the writer's error",
    },
    "accounting/recorder/recorder.py": {"on_events": "one malformed object must not hide the others"},
    "controllers/notifications/outbox.py": {
        "_handle": "a bug that one notification triggers must not stop the others"
    },
    "cli/completion/scripts.py": {"_names": "completion without names is better than an error at the prompt"},
    "cli/top/live.py": {"_execute": "the screen shows the error and stays"},
    "cli/program.py": {"main": "every failure becomes one line and an exit code"},
    "controllers/job/plugin_objects.py": {"_wanted": "a job plugin may raise anything"},
    "controllers/job/plugins/loading.py": {"plugin_class": "the import of a job plugin may raise anything"},
    "controllers/job/pods.py": {"_decorated": "a job plugin may raise anything"},
    "kube/controllers/controller.py": {
        "on_event": "raised again, after the object was queued to be mapped to keys later",
        "step": "a bug in one key must not stop the others",
    },
    "kube/controllers/runner.py": {
        "_on_batch": "a bug in one event must not stop the others",
        "_on_events": "a bug in one event must not stop the others",
        "_process": "a bug in one result must not end the loop",
        "_step": "a bug in a controller must not end the process",
        "_write": "a bug in one write is retried like an API error",
    },
    "kube/informers/shared_informers.py": {
        "_dispatch": "a bug in one handler must not stop the other handlers"
    },
    "kube/informers/indexer.py": {"_values_of": "one malformed object must not hide the others"},
    "embedded/supervisor.py": {"_run_forever": "a failed component is restarted; the others keep running"},
    "base/http/server_connection.py": {
        "_exchange": "a bug in one handler becomes a 500",
        "_handle": "a bug in one handler becomes a 500",
        "_serve": "a bug in one connection must not stop the server",
    },
    "nodes/kubelet/dns/server.py": {"answer": "one malformed object must not stop the server"},
    "nodes/kubelet/kubelet.py": {
        "_guard": "a bug in one task must not stop the kubelet",
        "_on_pod_event": "a bug in one pod must not stop the kubelet",
        "_process": "a bug in one pod must not stop the kubelet",
    },
    "nodes/kubelet/pods/worker.py": {"_guard": "a failed action is retried; other pods are not affected"},
    "nodes/kubelet/streams/streams.py": {"_run": "a bug must not look like success to the client"},
    "nodes/shim/__main__.py": {"main": "a start error is reported to the parent, then raised"},
    "nodes/shim/isolation/launch.py": {"_run_child": "a fork must never return into shim code"},
    "nodes/shim/loop.py": {"_run_action": "a bug in one handler must not stop the loop"},
    "nodes/shim/server.py": {"_handle": "a bug in one request must not stop the server"},
    "nodes/shim/supervisor.py": {"_in_child": "a fork must never return into shim code"},
    "scheduler/cluster_informer.py": {"_apply": "one malformed object must not stop the watch"},
    "scheduler/cycle.py": {"_act": "a bug in one action must not stop the others"},
    "scheduler/engine/faults.py": {"guard": "a plugin may raise anything"},
    "scheduler/engine/plugin_loader.py": {"_import": "the import of a plugin may raise anything"},
    "scheduler/engine/session.py": {"close": "a bug in one plugin must not discard the decisions"},
    "scheduler/loop.py": {"_cycle": "a bug in one cycle must not stop the scheduler"},
    "scheduler/writeback/writeback.py": {"_perform_all": "a bug in one write must not end the worker"},
    "sdk/background.py": {"run": "an interrupt cancels the coroutine; raised again"},
    "sdk/call.py": {
        "main": "whatever the user's function raises is reported to the caller",
        "_print_outcome": "whatever the classes of a result raise while they are pickled",
        "_picklable": "whatever the classes of an error raise while they are pickled",
    },
    "sdk/functions.py": {"pack_call": "whatever the classes of arguments raise while they are pickled"},
}


def broad_handlers(path: Path) -> Iterator[str]:
    """Names of the functions that catch every exception."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if (isinstance(child, ast.ExceptHandler) and catches_all(child.type)) or (
                isinstance(child, ast.Call)
                and ast.unparse(child.func).split(".")[-1] == "suppress"
                and any(catches_all(argument) for argument in child.args)
            ):
                yield function
            yield from visit(child, name)

    yield from visit(ast.parse(path.read_text()), "<module>")


def catches_all(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    named = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(each).split(".")[-1] in BROAD for each in named)


def test_broad_handlers_stand_only_at_named_guards() -> None:
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        if functions := set(broad_handlers(path)):
            found[str(path.relative_to(ROOT))] = functions
    assert found == {module: set(functions) for module, functions in GUARDS.items()}

"""A job's manifest that is edited and applied again, with each command of kubectl for it."""

from collections.abc import Callable

import yaml

# Arguments of kubectl and its standard input → its output.
Run = Callable[[tuple[str, ...], str], str]
WAYS = {
    "apply": ("apply",),
    "apply on the server": ("apply", "--server-side"),
    "replace": ("replace",),
}


def written(name: str, replicas: int) -> str:
    """A job's manifest without task names, minima, retries, queue and limits."""
    resources = {"requests": {"cpu": 1, "example.com/device": 1}}
    container = {"name": "c", "image": "busybox", "command": ["sleep", "60"], "resources": resources}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"replicas": replicas, "template": {"spec": {"containers": [container]}}}]},
    }
    return yaml.safe_dump(job)


def check_edits(run: Run, way: tuple[str, ...], name: str) -> None:
    """Scales a job up and down by its manifest, and tries one change that is not allowed."""
    first = ("create",) if way == ("replace",) else way
    run((*first, "-f", "-"), written(name, 3))
    for replicas in (5, 2):
        run((*way, "-f", "-"), written(name, replicas))
        shown = yaml.safe_load(run(("get", "vcjob", name, "-o", "yaml"), ""))["spec"]
        (task,) = shown["tasks"]
        assert (task["name"], task["replicas"], task["minAvailable"]) == ("default0", replicas, replicas)
        assert (shown["minAvailable"], shown["queue"], shown["maxRetry"]) == (replicas, "default", 3)
        assert task["template"]["spec"]["containers"][0]["resources"]["limits"] == {"example.com/device": 1}
    other = written(name, 2).replace("busybox", "alpine")
    assert "may not change fields" in run((*way, "-f", "-"), other)
    run(("delete", "vcjob", name, "--wait=false"), "")

"""Jobs from the command line: run, list, view, suspend, resume, delete."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Embedded, Vcctl
from tests.cli.jobs import job, start
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest


def phase(job: Manifest) -> str:
    return str(job.get("status", {}).get("state", {}).get("phase", ""))


def wait_for(embedded: Embedded, namespace: str, name: str, wanted: str) -> Manifest:
    return embedded.until(JOB, Key(namespace, name), lambda job: phase(job) == wanted)


def test_a_job_runs_from_flags_with_the_references_defaults(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    result = vcctl("job", "run", "-N", "hello")
    assert (result.code, result.out, result.err) == (0, "run job hello successfully\n", "")
    spec = embedded.get(JOB, Key(namespace, "hello"))["spec"]
    assert (spec["minAvailable"], spec["schedulerName"], spec["queue"]) == (1, "volcano", "default")
    task = spec["tasks"][0]
    assert (task["replicas"], task["template"]["spec"]["restartPolicy"]) == (1, "Never")
    assert task["template"]["metadata"]["labels"] == {"job.volcano.sh": "hello"}
    container = task["template"]["spec"]["containers"][0]
    amounts = {"cpu": "1000m", "memory": "100Mi"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert (container["name"], container["image"], container["imagePullPolicy"]) == (
        "hello",
        "busybox",
        "IfNotPresent",
    )


def test_every_flag_of_run_reaches_the_job(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    flags = "-i alpine -m 2 -r 3 -R cpu=500m -L cpu=1,memory=1Gi -S other"
    assert vcctl("job", "run", "--name", "full", *flags.split()).code == 0
    spec = embedded.get(JOB, Key(namespace, "full"))["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["schedulerName"]) == (2, 3, "other")
    assert container["image"] == "alpine"
    assert container["resources"] == {
        "requests": {"cpu": "500m"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }


def write_job(path: Path, name: str = "filed", kind: str = "Job", **metadata: str) -> str:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "tasks": [
                {
                    "replicas": 1,
                    "name": "t",
                    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                }
            ]
        },
    }
    path.write_text(yaml.safe_dump(job))
    return str(path)


def test_a_job_runs_from_a_file(vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path) -> None:
    result = vcctl("job", "run", "-f", write_job(tmp_path / "job.yaml"))
    assert (result.code, result.out) == (0, "run job filed successfully\n")
    assert embedded.get(JOB, Key(namespace, "filed"))["spec"]["tasks"][0]["name"] == "t"


def test_with_a_file_the_flag_n_is_the_namespace(
    vcctl: Vcctl, embedded: Embedded, namespace: str, tmp_path: Path
) -> None:
    file = write_job(tmp_path / "job.yml", namespace="elsewhere")
    assert vcctl("job", "run", "-f", file, "-n", namespace).code == 0
    assert embedded.get(JOB, Key(namespace, "filed"))["metadata"]["namespace"] == namespace


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        pytest.param("job.json", "{}", 2, "only support yaml file", id="a-name-that-is-not-yaml"),
        pytest.param("gone.yaml", None, 1, "gone.yaml: no such file", id="no-such-file"),
        pytest.param("bad.yaml", "a: [", 1, "bad.yaml: not valid YAML", id="not-yaml"),
        pytest.param(
            "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}", 1, "is a Pod of v1", id="a-pod"
        ),
        pytest.param("nothing.yaml", "", 1, "holds no Job", id="empty"),
    ],
)
def test_a_wrong_file_is_named(
    vcctl: Vcctl, tmp_path: Path, name: str, content: str | None, code: int, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    result = vcctl("job", "run", "-f", str(tmp_path / name))
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("Failed to run job: ")
    assert message in result.err


def test_what_the_server_refuses_is_a_failure_with_its_reason(vcctl: Vcctl) -> None:
    result = vcctl("job", "run", "-N", "greedy", "-m", "5", "-r", "2")
    assert (result.code, result.out) == (1, "")
    assert "job 'minAvailable' should not be greater than total replicas" in result.err


def test_the_list_has_the_references_columns_and_widths(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    vcctl("job", "run", "-N", "a-long-name", "-r", "2")
    wait_for(embedded, namespace, "a-long-name", "Running")
    embedded.until(JOB, Key(namespace, "a-long-name"), lambda job: job["status"].get("running") == 2)
    header, row = vcctl("job", "list").lines
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    assert header == (
        "Name          " "Creation       " "Phase       " "JobType     " "Replicas    " "Min   " "Pending   "
        "Running   " "Succeeded   " "Failed    " "Unknown     " "RetryCount"
    )  # fmt: skip
    assert row == (
        f"a-long-name   {today}     " "Running     " "Batch       " "2           " "1     " "0         "
        "2         " "0           " "0         " "0           " "0         "
    )  # fmt: skip


def test_an_empty_list_says_so(vcctl: Vcctl) -> None:
    result = vcctl("job", "list")
    assert (result.code, result.out) == (0, "No resources found\n")


def test_the_list_is_filtered_by_queue_scheduler_name_and_labels(vcctl: Vcctl) -> None:
    vcctl("job", "run", "-N", "one-train")
    vcctl("job", "run", "-N", "two-train", "-S", "other")
    vcctl("job", "run", "-N", "three")
    names = "jsonpath={.items[*].metadata.name}"
    assert vcctl("job", "list", "--selector", "train", "-o", names).out == "one-train two-train"
    assert vcctl("job", "list", "-S", "other", "-o", names).out == "two-train"
    assert vcctl("job", "list", "-q", "default", "-o", names).out == "one-train three two-train"
    assert vcctl("job", "list", "-q", "absent").out == "No resources found\n"
    assert vcctl("job", "list", "-l", "a=b").out == "No resources found\n"


def test_all_namespaces_get_a_column_in_front(vcctl: Vcctl, namespace: str) -> None:
    vcctl("job", "run", "-N", "everywhere")
    result = vcctl("job", "list", "--all-namespaces=true")
    assert result.lines[0].startswith("Namespace   Name  ")
    assert any(line.split()[:2] == [namespace, "everywhere"] for line in result.lines)


def test_every_output_format_of_a_list(vcctl: Vcctl, namespace: str) -> None:
    vcctl("job", "run", "-N", "b", "-r", "1")
    vcctl("job", "run", "-N", "a", "-r", "2")
    assert vcctl("job", "list", "-o", "name").lines == ["job.batch.volcano.sh/a", "job.batch.volcano.sh/b"]
    listed = json.loads(vcctl("job", "list", "-o", "json").out)
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["Job", "Job"])
    assert "managedFields" not in listed["items"][0]["metadata"]
    assert yaml.safe_load(vcctl("job", "list", "-o", "yaml").out)["items"][1]["metadata"]["name"] == "b"
    assert vcctl("job", "list", "-o", "wide").lines[0].split()[-2:] == ["Queue", "Age"]
    template = 'jsonpath={range .items[*]}{.metadata.name}={.spec.tasks[0].replicas}{"\\n"}{end}'
    assert vcctl("job", "list", "-o", template).out == "a=2\nb=1\n"
    assert not vcctl("job", "list", "--no-headers").out.startswith("Name")


def test_a_list_is_sorted_by_a_path_or_a_column(vcctl: Vcctl) -> None:
    for name, replicas in (("a", "10"), ("b", "9")):
        vcctl("job", "run", "-N", name, "-r", replicas, "-R", "cpu=1m", "-L", "cpu=1m")
    by = ("job", "list", "-o", "name", "--sort-by")
    assert vcctl(*by, "replicas").lines == ["job.batch.volcano.sh/b", "job.batch.volcano.sh/a"]
    assert vcctl(*by, "{.spec.tasks[0].replicas}").lines[0].endswith("/b")
    assert vcctl(*by, ".metadata.name").lines[0].endswith("/a")
    wrong = vcctl(*by, "size")
    assert (wrong.code, wrong.out) == (2, "")
    assert (
        "'size' is neither a path such as .metadata.name nor one of the columns Name, Creation" in wrong.err
    )


def test_a_view_shows_the_job_from_its_name_to_its_events(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    vcctl("job", "run", "-N", "seen", "-i", "alpine", "-R", "cpu=1,memory=64Mi", "-L", "")
    wait_for(embedded, namespace, "seen", "Running")
    result = vcctl("job", "view", "-N", "seen")
    assert result.code == 0
    assert result.lines[:3] == ["Name:       \tseen", f"Namespace:  \t{namespace}", "Labels:     \t<none>"]
    for line in (
        "  Min Available:     \t1",
        "    Env:\t[]",
        "          Image:\talpine",
        "              Memory:\t64Mi",
        "        Restart Policy:   \tNever",
        "    Phase:\tRunning",
        "    Status\tTransitionTime",
    ):
        assert line in result.lines
    assert any(line.startswith("Events:") for line in result.lines)


def test_a_view_may_be_an_object(vcctl: Vcctl) -> None:
    vcctl("job", "run", "-N", "seen")
    assert json.loads(vcctl("job", "view", "seen", "-o", "json").out)["metadata"]["name"] == "seen"
    assert vcctl("job", "view", "seen", "-o", "jsonpath={.spec.queue}").out.strip() == "default"


def test_a_job_is_suspended_resumed_and_deleted_and_each_is_confirmed(
    vcctl: Vcctl, embedded: Embedded, namespace: str
) -> None:
    vcctl("job", "run", "-N", "my-job")
    wait_for(embedded, namespace, "my-job", "Running")
    assert vcctl("job", "view", "-n", "my-job").lines[0] == "Name:       \tmy-job"
    suspended = vcctl("job", "suspend", "-n", "my-job")
    assert (suspended.code, suspended.out, suspended.err) == (0, "suspend job my-job successfully\n", "")
    wait_for(embedded, namespace, "my-job", "Aborted")
    resumed = vcctl("job", "resume", "-n", "my-job")
    assert (resumed.code, resumed.out) == (0, "resume job my-job successfully\n")
    wait_for(embedded, namespace, "my-job", "Running")
    deleted = vcctl("job", "delete", "-n", "my-job")
    assert (deleted.code, deleted.out) == (0, "delete job my-job successfully\n")
    with pytest.raises(NotFound):
        embedded.get(JOB, Key(namespace, "my-job"))


def test_pointless_operations_are_errors(vcctl: Vcctl, embedded: Embedded, namespace: str) -> None:
    start(embedded, job("done", namespace, seconds=0), "Completed")
    start(embedded, job("busy", namespace), "Running")
    assert vcctl("job", "suspend", "done").err == (
        f"Failed to suspend job: job {namespace}/done has ended (Completed); "
        "only a job that waits or runs can be suspended\n"
    )
    result = vcctl("job", "resume", "busy")
    assert (result.code, result.err) == (
        1,
        f"Failed to resume job: job {namespace}/busy is not suspended (Running)\n",
    )
    assert vcctl("job", "suspend", "busy").code == 0
    wait_for(embedded, namespace, "busy", "Aborted")
    assert "is suspended already" in vcctl("job", "suspend", "busy").err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-N", "here", "-n", "{}"], id="as in Volcano"),
        pytest.param(["--name", "here", "--namespace", "{}"], id="long"),
        pytest.param(["here", "-n", "{}"], id="position"),
        pytest.param(["-n", "here", "--namespace", "{}"], id="short-name-long-namespace"),
        pytest.param(["-n=here"], id="equals"),
    ],
)
def test_a_job_is_named_in_every_way(vcctl: Vcctl, namespace: str, words: list[str]) -> None:
    vcctl("job", "run", "-N", "here")
    result = vcctl("job", "view", *(word.format(namespace) for word in words), "-o", "name")
    assert result.out == "job.batch.volcano.sh/here\n"


@pytest.mark.parametrize("action", ["view", "suspend", "resume", "delete"])
def test_a_missing_name_is_a_usage_error(vcctl: Vcctl, action: str) -> None:
    result = vcctl("job", action, "--namespace", "default")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"Failed to {action} job: job name is mandatory to {action} a particular job\n"


@pytest.mark.parametrize("action", ["view", "suspend", "resume", "delete"])
def test_a_wrong_name_suggests_the_near_one(vcctl: Vcctl, namespace: str, action: str) -> None:
    vcctl("job", "run", "-N", "training")
    result = vcctl("job", action, "-N", "trainng")
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        f"Failed to {action} job: job 'trainng' not found in namespace {namespace!r}; did you mean 'training'?\n"
    )

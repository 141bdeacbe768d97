"""`volcano` as the program it is, used by root or by nobody; the API it serves; and what there is left of a cluster."""

import functools
import json
import os
import shutil
import site
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import volcano
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.options import CONTAINERS
from volcano.nodes.runtimes.shim_launch import shim_pid
from volcano.nodes.shim import processes
from volcano.nodes.shim.isolation.cgroups import cluster_id

ROOT, NOBODY = 0, 65534
SOURCES = Path(volcano.__file__).parents[1]
PATIENCE = 60.0
POLL = 0.1
TRIED = (
    "from volcano.nodes.runtimes.probe import probe; import numpy, cryptography; print(probe('{}').reason)"
)


@dataclass(frozen=True)
class Setting:
    """Runtime and user."""

    runtime: str
    user: int = ROOT

    def __str__(self) -> str:
        return f"{self.runtime}-{'root' if self.user == ROOT else 'nobody'}"

    @property
    def isolated(self) -> bool:
        """Whether pods have a root and a network of their own."""
        return self.runtime != "plain"


NETNS, USERNS, PLAIN = Setting("netns"), Setting("userns"), Setting("plain")
NOBODYS_USERNS, NOBODYS_PLAIN = Setting("userns", NOBODY), Setting("plain", NOBODY)
EVERY = (NETNS, USERNS, PLAIN, NOBODYS_USERNS, NOBODYS_PLAIN)


def skip_unless_possible(setting: Setting) -> Setting:
    if reason := obstacle(setting):
        pytest.skip(f"{setting}: {reason}")
    return setting


@functools.cache
def obstacle(setting: Setting) -> str:
    """Why a runtime cannot be tried as a user; empty when it can."""
    if setting.user == ROOT and os.geteuid() != ROOT:
        return "only root is root"
    if setting.user not in (ROOT, os.geteuid()) and os.geteuid() != ROOT:
        return "only root can become nobody"
    if not python_of(setting.user):
        return "no Python with our libraries is open to nobody"
    tried = subprocess.run(
        [python_of(setting.user), "-c", TRIED.format(setting.runtime)],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths()}, **identity_of(setting.user),
    )  # fmt: skip
    return str(tried.stdout if tried.returncode == 0 else tried.stderr).strip()


@functools.cache
def python_of(user: int) -> str:
    """A Python that a user may run with our libraries: ours may lie in another user's home."""
    if user == os.geteuid():
        return sys.executable
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run(
                [python, "-c", "import numpy, msgspec, cryptography, volcano.embedded.cluster"],
                check=True, capture_output=True, env={"PYTHONPATH": paths()}, **identity_of(user),
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return ""


def paths(sources: Path = SOURCES) -> str:
    return os.pathsep.join((str(sources), *site.getsitepackages()))


def identity_of(user: int) -> dict[str, Any]:
    if user == os.geteuid():
        return {}
    return {"user": user, "group": user, "extra_groups": [], "cwd": "/"}


class Volcano:
    """The program, with a home of its own; of another version if `sources` and `module` say so."""

    def __init__(
        self, setting: Setting, home: Path, sources: Path = SOURCES, module: str = "volcano.cmd.volcano"
    ) -> None:
        self.setting = setting
        self.module = module
        self.home = home
        self.environment = {
            "HOME": str(home),
            "TMPDIR": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_RUNTIME_DIR": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": paths(sources),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Pods of tests reach no network but their own.
            "VOLCANO_POD_NETWORK": os.environ["VOLCANO_POD_NETWORK"],
        }

    def run(self, *arguments: str, timeout: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"volcano {' '.join(arguments)} was not done after {timeout:.0f} s:\n{out}\n{err}")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [python_of(self.setting.user), "-m", self.module, *arguments]
        if arguments[0] in ("run", "up") and "--no-local-node" not in arguments:
            command += ["--runtime", self.setting.runtime]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment, **identity_of(self.setting.user),
        )  # fmt: skip

    def write(self, name: str, *manifests: Manifest) -> str:
        """A file of manifests that its user may read."""
        path = self.home / f"{name}.yaml"
        path.write_text("\n---\n".join(json.dumps(manifest) for manifest in manifests))
        return str(path)

    def follow(self, *manifests: Manifest, timeout: float = PATIENCE) -> tuple[int, dict[str, Any], str]:
        """`volcano run -o json`: its code, what it says of the jobs, and the pods' lines."""
        shown = self.run("run", "-o", "json", self.write("run", *manifests), timeout=timeout)
        assert shown.stdout, shown.stderr
        return shown.returncode, json.loads(shown.stdout), shown.stderr


@contextmanager
def used(setting: Setting) -> Iterator[Volcano]:
    """A home below /tmp, since the tests' own directories are closed to others; whatever is left in it is ended."""
    home = Path(tempfile.mkdtemp(prefix="volcano-test-"))
    home.chmod(0o755)
    if setting.user != os.geteuid():
        os.chown(home, setting.user, setting.user)
    try:
        yield Volcano(setting, home)
        until(lambda: not running_of(home), "everything ended", within=10.0)
        assert left_of(home) == []
    finally:
        processes.send(running_of(home), 9)
        shutil.rmtree(home, ignore_errors=True)


class Cluster:
    """A durable cluster that `volcano up --detach` starts."""

    def __init__(self, volcano: Volcano, name: str = "cluster") -> None:
        self.volcano = volcano
        self.directory = volcano.home / name
        self._options = ("--data-dir", str(self.directory))

    def up(self, *arguments: str) -> None:
        shown = self.volcano.run("up", *self._options, "--detach", *arguments)
        assert shown.returncode == 0, shown.stderr

    def down(self, *arguments: str) -> str:
        shown = self.volcano.run("down", *self._options, *arguments)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    @property
    def running(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.directory / "cluster.json").read_text())
        return state

    @property
    def pid(self) -> int:
        return int(self.running["pid"])

    @property
    def shim(self) -> int:
        return shim_pid(self.directory)

    @property
    def token(self) -> str:
        return (self.directory / "admin.token").read_text().strip()

    def ask(self, method: str, path: str, body: Manifest | None = None) -> Any:
        context = trusting(self.directory / "ca.crt")
        request = urllib.request.Request(
            f"{self.running['url']}{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
            text = answer.read().decode()
        return text if path.partition("?")[0].endswith("/log") else json.loads(text)

    def create(self, manifest: Manifest) -> Manifest:
        kind, version = manifest["kind"].lower() + "s", manifest["apiVersion"]
        group = "api" if version == "v1" else "apis"
        made: Manifest = self.ask("POST", f"/{group}/{version}/namespaces/default/{kind}", manifest)
        return made

    def pod(self, name: str) -> Manifest:
        found: Manifest = self.ask("GET", f"/api/v1/namespaces/default/pods/{name}")
        return found

    def pods(self) -> dict[str, Manifest]:
        items = self.ask("GET", "/api/v1/namespaces/default/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def log(self, name: str, **options: str) -> str:
        query = "&".join(f"{key}={value}" for key, value in options.items())
        text: str = self.ask("GET", f"/api/v1/namespaces/default/pods/{name}/log?{query}")
        return text

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of every event about a pod."""
        items = self.ask("GET", "/api/v1/namespaces/default/events")["items"]
        return [(each["reason"], each["message"]) for each in items if each["involvedObject"]["name"] == name]

    def until(self, name: str, true: Callable[[Manifest], object], within: float = PATIENCE) -> Manifest:
        """Waits for something to be true of a pod."""
        seen: list[Manifest] = [{}]

        def look() -> bool:
            try:
                seen[0] = self.pod(name)
            except urllib.error.HTTPError:
                return False
            return bool(true(seen[0]))

        until(look, lambda: f"pod {name}: {json.dumps(seen[0].get('status'), indent=1)}", within)
        return seen[0]


@functools.cache
def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.read_text())


def until(true: Callable[[], object], what: str | Callable[[], str], within: float = PATIENCE) -> None:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"not so after {within:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL)


def phase(*wanted: str) -> Callable[[Manifest], bool]:
    return lambda pod: pod["status"].get("phase") in wanted


def status_of(pod: Manifest, container: str = "main") -> dict[str, Any]:
    """How a container of a pod stands; empty when nothing is known of it."""
    statuses = pod["status"].get("containerStatuses") or ()
    return next((each for each in statuses if each["name"] == container), {})


def running_since(pod: Manifest) -> str | None:
    started = (status_of(pod).get("state") or {}).get("running")
    return started["startedAt"] if started else None


def running_of(directory: Path) -> list[int]:
    """Processes of a cluster or of its pods: their arguments, their variables or their mounts name its directory."""
    name, found = os.fsencode(directory) + b"/", []
    for pid in processes.every_pid():
        for kind in ("cmdline", "environ", "mountinfo"):
            try:
                text = Path(f"/proc/{pid}/{kind}").read_bytes()
            except OSError:
                continue
            if name in text and pid != os.getpid():
                found.append(pid)
                break
    return found


def left_of(directory: Path) -> list[str]:
    """What of a cluster outlives it, in words: mounts, control groups, interfaces, and files of its pods but logs."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(directory) in line]
    clusters = [directory, *(path for path in directory.iterdir() if path.is_dir())]
    names = {cluster_id(str(cluster)) for cluster in clusters}
    groups = [str(group) for group in Path("/sys/fs/cgroup").glob("**/volcano/*") if group.name in names]
    files = [str(path) for path in directory.glob("*/pods/*/*") if path.name != CONTAINERS]
    files += [str(path) for path in directory.glob("*/shim")]
    interfaces = [name for name in os.listdir("/sys/class/net") if "volcano" in name]
    return mounts + groups + files + interfaces


def pod_of(name: str, *command: str, **fields: Any) -> Manifest:
    """A pod with one container, `main`; `container` holds more of that, the rest is more of the pod's spec."""
    container = {"name": "main", "image": "none", "command": list(command), **fields.pop("container", {})}
    if not command:
        del container["command"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **fields,
        },
    }


def job_of(name: str, replicas: int, template: Manifest, **fields: Any) -> Manifest:
    """A gang of pods as one task, `worker`."""
    labels = {"metadata": {"labels": template["metadata"].get("labels") or {}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": replicas,
            "schedulerName": "volcano",
            "tasks": [
                {"name": "worker", "replicas": replicas, "template": {**labels, "spec": template["spec"]}}
            ],
            **fields,
        },
    }

"""The installed programs, as processes: what a shell and a person at a terminal see."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.k8s.control_plane import build
from volcano.kube.api.jsonpath import compile_path

BIN = Path(sys.executable).parent
MANIFESTS = Path(__file__).parent.parent / "manifests"
HEAVY = ("rich", "numpy", "yaml", "cryptography", "ssl", "asyncio", "orjson", "msgspec")
WITHIN = 60.0

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from volcano.cli.program import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "usage: vcctl" in done.stdout
    assert set(HEAVY) & set(done.stderr.split()) == set()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs programs in the shell of a user who has started `volcano up` and has no kubeconfig."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "XDG"))},
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=WITHIN, env={**environment, **more}, cwd=home
        )

    started = run("volcano", "up", "--in-memory", "--no-local-node", "--nodes", "4", "--detach")
    assert started.returncode == 0, started.stderr
    yield run
    assert run("volcano", "down").returncode == 0


def phase_becomes(run: Run, job: str, phase: str) -> None:
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        if (
            run("vcctl", "job", "view", "-N", job, "-o", "jsonpath={.status.state.phase}").stdout.strip()
            == phase
        ):
            return
        time.sleep(0.1)
    pytest.fail(f"{job} did not become {phase} within {WITHIN} s")


@pytest.mark.slow
def test_help_is_there_in_under_300_ms() -> None:
    def once() -> float:
        """In time of a processor: how busy the others are does not matter."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([BIN / "vcctl", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(7)) < 0.3


@pytest.mark.slow
def test_the_seeds_lines_work_word_for_word(run: Run) -> None:
    assert run("vcctl", "queue", "list").stdout.startswith("Name                     Weight  State")
    assert run("vcctl", "queue", "create", "-n", "my-queue", "-w", "2").returncode == 0
    assert run("vcctl", "job", "list").stdout == "No resources found\n"
    assert run("vcctl", "job", "run", "-N", "my-job").stdout == "run job my-job successfully\n"
    phase_becomes(run, "my-job", "Running")
    assert run("vcctl", "job", "view", "-n", "my-job").stdout.startswith("Name:       \tmy-job\n")
    assert run("vcctl", "job", "suspend", "-n", "my-job").returncode == 0
    phase_becomes(run, "my-job", "Aborted")
    assert run("vcctl", "job", "resume", "-n", "my-job").returncode == 0
    phase_becomes(run, "my-job", "Running")
    assert run("vcctl", "job", "delete", "-n", "my-job").stdout == "delete job my-job successfully\n"


@pytest.mark.slow
def test_every_program_is_installed(run: Run) -> None:
    for words in (
        "vsub -n slurm -c 'sleep 60'",
        "vjobs",
        "vjobs -n slurm",
        "vqueues",
        "vsuspend -n slurm",
        "vresume -n slurm",
        "vcancel -n slurm",
        "vcctl version",
        "vcctl pod list",
        "vcctl podgroup list",
        "vcctl jobflow list",
        "vcctl jobtemplate list",
    ):
        done = run("sh", "-c", words)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout


# Command lines in order, and what each must print.
STORY = (
    ("vcctl queue create -n story -w 4 --capability cpu=8", "create queue story successfully"),
    ("vcctl queue get -n story", "story                    4"),
    ("vcctl queue update -n story -w 5", "update queue story successfully"),
    ("vcctl queue operate -n story -a update -w 6", "update queue story successfully"),
    ("vcctl queue operate -n story -a close", "close queue story successfully"),
    ("vcctl queue operate -n story -a open", "open queue story successfully"),
    ("vcctl queue get story -o jsonpath={.spec.weight}", "6"),
    ("vcctl queue list -o name", "queue.scheduling.volcano.sh/story"),
    ("vcctl jobtemplate create -f template.yaml", "Created JobTemplate: default/step"),
    ("vcctl jobtemplate list", "step    default"),
    ("vcctl jobtemplate get -N step", "step    default"),
    ("vcctl jobtemplate describe -N step", "kind: JobTemplate"),
    ("vcctl jobflow create -f flow.yaml", "Created JobFlow: default/flow"),
    ("vcctl jobflow list --all-namespaces", "flow    default"),
    ("vcctl jobflow get -N flow", "flow    default"),
    ("vcctl jobflow describe -o json", '"kind": "JobFlow"'),
    ("vcctl jobflow delete -N flow", "Deleted JobFlow: default/flow"),
    ("vcctl jobtemplate delete -f template.yaml", "Deleted JobTemplate: default/step"),
    ("vcctl job run -N told -r 2", "run job told successfully"),
    ("vcctl job list --selector told", "told"),
    ("vcctl podgroup list", "default"),
    ("vcctl podgroup get told", "told-"),
    ("vcctl podgroup describe -n told", "Owner:            Job/told"),
    ("vcctl pod list -j told --all-namespaces", "Namespace"),
    ("vcctl job delete told", "delete job told successfully"),
    ("vcctl queue delete -n story", "delete queue story successfully"),
    ("vcctl version", "API Version: v1alpha1"),
)
TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: step}
spec:
  tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: flow}
spec: {jobRetainPolicy: delete, flows: [{name: step}]}
"""


@pytest.mark.slow
def test_every_command_works_as_a_process(run: Run) -> None:
    home = Path(run("sh", "-c", "echo $HOME").stdout.strip())
    (home / "template.yaml").write_text(TEMPLATE)
    (home / "flow.yaml").write_text(FLOW)
    for words, expected in STORY:
        done = run(*words.split())
        assert (done.returncode, done.stderr) == (0, ""), words
        assert expected in done.stdout, words


@pytest.mark.slow
def test_a_manifest_of_the_seeds_runs(run: Run) -> None:
    file = MANIFESTS / "job-mpi-gang.yaml"
    name = compile_path(".metadata.name").first(json.loads(_as_json(file)))
    done = run("vcctl", "job", "run", "-f", str(file), "-n", "default")
    assert (done.returncode, done.stdout) == (0, f"run job {name} successfully\n"), done.stderr
    assert name in run("vcctl", "job", "list").stdout


def _as_json(path: Path) -> str:
    code = "import json,sys,yaml; print(json.dumps(next(yaml.safe_load_all(open(sys.argv[1])))))"
    return subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param("vcctl job view -N nobody", 3, id="no-such-job"),
        pytest.param("vcctl queue get -n nobody", 3, id="no-such-queue"),
        pytest.param("vcctl job list --kubeconfig gone", 4, id="no-kubeconfig"),
        pytest.param("vcctl job list --master http://127.0.0.1:1", 4, id="no-server"),
        pytest.param("vcctl job list --as eve", 4, id="no-rights"),
        pytest.param("vcctl job list --flagg", 2, id="bad-flag"),
        pytest.param("vcctl job run -f gone.yaml", 1, id="wrong-file"),
        pytest.param("vcctl job run -f job.txt", 2, id="wrong-file-name"),
        pytest.param("vcctl jobb", 2, id="bad-command"),
        pytest.param("vcancel", 2, id="no-name"),
    ],
)
def test_errors_are_on_stderr_with_a_code_and_without_a_traceback(run: Run, words: str, code: int) -> None:
    done = run(*words.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(run: Run) -> None:
    done = run("bash", "-c", "set -o pipefail; vcctl queue list -o yaml | true; exit ${PIPESTATUS[0]}")
    assert done.returncode in (0, 141)
    assert done.stderr == ""


@pytest.mark.slow
def test_an_interrupt_ends_a_watch_quietly(run: Run) -> None:
    done = run("sh", "-c", "timeout --preserve-status -s INT 3 vcctl queue list -w; echo ended with $?")
    assert "default  " in done.stdout
    assert (done.stdout.splitlines()[-1], done.stderr) == ("ended with 130", "")


@pytest.mark.slow
def test_kubectl_runs_it_as_a_plugin(run: Run) -> None:
    kubectl = shutil.which("kubectl") or str(build.program("kubectl"))
    if not Path(kubectl).exists():
        pytest.skip("there is no kubectl")
    done = run(kubectl, "volcano", "queue", "get", "-n", "default", "-o", "name")
    assert (done.returncode, done.stdout) == (0, "queue.scheduling.volcano.sh/default\n"), done.stderr


@pytest.mark.slow
def test_on_a_terminal_tables_fit_and_are_coloured(run: Run) -> None:
    run("vcctl", "job", "run", "-N", "a-job-with-quite-a-long-name-for-a-terminal")
    phase_becomes(run, "a-job-with-quite-a-long-name-for-a-terminal", "Running")
    screen = on_a_terminal(run, "vcctl job list", columns=100)
    assert "\x1b[32mRunning" in screen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert max(len(line) for line in plain.splitlines()) <= 100
    assert "a-job-with" in plain
    assert "\x1b" not in on_a_terminal(run, "NO_COLOR=1 vcctl job list", columns=100)


def on_a_terminal(run: Run, line: str, *, columns: int) -> str:
    """What a command line prints on a terminal of this width."""
    code = (
        "import fcntl,os,pty,struct,sys,termios\n"
        "pid, fd = pty.fork()\n"
        f"size = struct.pack('HHHH', 24, {columns}, 0, 0)\n"
        "if not pid:\n"
        "    fcntl.ioctl(0, termios.TIOCSWINSZ, size)\n"
        "    os.execvp('sh', ['sh', '-c', sys.argv[1]])\n"
        "while True:\n"
        "    try: data = os.read(fd, 65536)\n"
        "    except OSError: break\n"
        "    if not data: break\n"
        "    sys.stdout.buffer.write(data)\n"
        "os.waitpid(pid, 0)\n"
    )
    done = run(sys.executable, "-c", code, line, TERM="xterm-256color")
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\r\n", "\n")

"""kubectl logs, exec, attach, cp and port-forward with pods that are real processes."""

import fcntl
import hashlib
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kubectl.conftest import Kubectl
from tests.kubectl.serving import Serving
from tests.nodes.kubelet.streams.stage import PYTHON, Stage, pod_of
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.server import ApiServer
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.client.protocol import Options, PatchType

BULK = 10 << 20
WEB = """
import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = (self.path * 1000).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(text))); self.end_headers()
        self.wfile.write(text)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Pods:
    """Pods with real processes behind the API server of kubectl."""

    def __init__(self, serving: Serving, stage: Stage) -> None:
        self.serving = serving
        self.stage = stage

    def run(self, name: str, *command: str, **rest: Any) -> Manifest:
        async def work(api: ApiServer) -> Manifest:
            pod = await self.create(pod_of(name, app=name))
            await self.stage.start(pod, *command, **rest)
            return pod

        pod: Manifest = self._await(work)
        return pod

    def bare(self, pod: Manifest) -> Manifest:
        """A pod whose containers have not been started."""

        async def work(api: ApiServer) -> Manifest:
            return await self.create(pod)

        made: Manifest = self._await(work)
        return made

    def start(self, pod: Manifest, *command: str, **rest: Any) -> None:
        async def work(api: ApiServer) -> None:
            await self.stage.start(pod, *command, **rest)

        self._await(work)

    def ended(self, pod: Manifest) -> None:
        async def work(api: ApiServer) -> None:
            await self.stage.ended(pod)

        self._await(work)

    async def create(self, pod: Manifest) -> Manifest:
        made = await self.client.create(POD, pod)
        return await self.stage.pod({**pod, "metadata": made["metadata"]})

    @property
    def client(self) -> DirectClient:
        return DirectClient(self.serving.api.registry)

    async def publish(self, pod: Manifest) -> None:
        options = Options(patch_type=PatchType.MERGE)
        patch = {"status": pod["status"]}
        await self.client.patch(POD, key_of(pod), patch, subresource="status", options=options)

    def _await(self, work: Any) -> Any:
        return self.serving.run(work)


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    stage = Stage(tmp_path_factory.mktemp("cluster"))
    serving = Serving(tmp_path_factory.mktemp("server"), stage.logs, stage.streams)
    pods = Pods(serving, stage)
    stage.publish = pods.publish
    serving.run(lambda api: stage.open())
    yield pods
    serving.run(lambda api: stage.close())
    serving.stop()


@pytest.fixture(scope="module")
def serving(pods: Pods) -> Serving:
    return pods.serving


@pytest.fixture(scope="module")
def shell(pods: Pods, kubectl: Kubectl) -> Manifest:
    return pods.run("shell", "sleep", "600")


# exec


def test_exec_returns_output_errors_and_exit_codes(kubectl: Kubectl, shell: Manifest) -> None:
    assert kubectl("exec", "shell", "--", "echo", "hello", "world") == "hello world\n"
    done = kubectl.run("exec", "shell", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr.startswith("err\n")
    assert "command terminated with exit code 7" in done.stderr


def test_exec_in_a_missing_program_container_or_pod_fails(
    kubectl: Kubectl, shell: Manifest, pods: Pods
) -> None:
    assert "no-such-program" in kubectl.fails("exec", "shell", "--", "no-such-program")
    assert "container x is not valid for pod shell" in kubectl.fails("exec", "shell", "-c", "x", "--", "ls")
    assert 'pods "none" not found' in kubectl.fails("exec", "none", "--", "ls")
    pods.bare(pod_of("early"))
    assert 'container not found ("main")' in kubectl.fails("exec", "early", "--", "ls")


def test_exec_forwards_standard_input_and_its_end(kubectl: Kubectl, shell: Manifest) -> None:
    assert kubectl("exec", "-i", "shell", "--", "sort", stdin="b\na\nc\n") == "a\nb\nc\n"


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_exec_transfers_ten_megabytes_both_ways(kubectl: Kubectl, shell: Manifest, websockets: str) -> None:
    data = os.urandom(BULK)
    done = subprocess.run(
        [kubectl.binary, "exec", "-i", "shell", "--", "cat"],
        input=data,
        env={**kubectl.environment, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_exec_ends_when_the_process_closes_standard_input(kubectl: Kubectl, shell: Manifest) -> None:
    done = kubectl.run("exec", "-i", "shell", "--", "head", "-c", "3", stdin="abc" * 1_000_000)
    assert (done.returncode, done.stdout) == (0, "abc")


def test_the_process_is_killed_when_the_client_disconnects(kubectl: Kubectl, shell: Manifest) -> None:
    client = kubectl.start("exec", "shell", "--", "sh", "-c", "echo $$; exec sleep 611")
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    assert "611" in Path(f"/proc/{pid}/cmdline").read_text()
    client.kill()
    client.wait(10)
    client.stdout.close()
    _until(lambda: not Path(f"/proc/{pid}").exists(), "the process is still running")


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_a_terminal_has_a_size_and_forwards_input(kubectl: Kubectl, shell: Manifest, websockets: str) -> None:
    with _terminal(kubectl, "exec", "-it", "shell", "--", "sh", websockets=websockets) as terminal:
        terminal.type("tty -s && stty size\n")
        terminal.wait_for("24 80")
        terminal.resize(50, 132)
        deadline = time.monotonic() + 10
        while "50 132" not in terminal.seen and time.monotonic() < deadline:
            terminal.type("stty size\n")
            terminal.read(0.2)
        terminal.wait_for("50 132")
        terminal.type("sleep 600\n")
        terminal.read(0.3)
        terminal.type("\x03")  # SIGINT
        terminal.type("exit 3\n")
        assert terminal.end() == 3


@pytest.mark.slow
def test_exec_with_the_python_client(serving: Serving, shell: Manifest) -> None:
    script = """
from kubernetes.stream import stream
session = stream(
    api.connect_get_namespaced_pod_exec, "shell", "default", command=["sh", "-c", "echo out; echo err >&2; exit 4"],
    stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False,
)
session.run_forever(timeout=10)
print([session.read_stdout(), session.read_stderr(), session.returncode])
"""
    assert _python_client(serving, script) == "['out\\n', 'err\\n', 4]\n"


# attach


def test_attach_forwards_output_and_input(kubectl: Kubectl, pods: Pods) -> None:
    script = "while read line; do echo got $line; [ $line = end ] && exit 0; done"
    pod = pod_of("reader", app="reader")
    pod["spec"]["containers"][0]["stdin"] = True
    pod = pods.bare(pod)
    pods.start(pod, "sh", "-c", script, stdin=True)
    output = kubectl.run("attach", "-i", "reader", stdin="one\nend\n").stdout
    assert output.splitlines()[-2:] == ["got one", "got end"]


# cp


@pytest.mark.parametrize("size", [0, 3 << 20])
def test_files_are_copied_both_ways(kubectl: Kubectl, shell: Manifest, tmp_path: Path, size: int) -> None:
    here, there, back = tmp_path / "here", tmp_path / "there", tmp_path / "back"
    here.write_bytes(os.urandom(size))
    kubectl("cp", str(here), f"shell:{there}")
    assert there.read_bytes() == here.read_bytes()
    kubectl("cp", f"shell:{there}", str(back))
    assert back.read_bytes() == here.read_bytes()


# logs


def test_logs_of_a_container(kubectl: Kubectl, pods: Pods) -> None:
    pod = pods.run("printer", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; echo bad >&2")
    pods.ended(pod)
    everything = "".join(f"line {number}\n" for number in range(1, 6))
    assert sorted(kubectl("logs", "printer").splitlines()) == sorted([*everything.splitlines(), "bad"])
    assert len(kubectl("logs", "printer", "--tail=2").splitlines()) == 2
    assert kubectl("logs", "printer", "--tail=0") == ""
    stamped = kubectl("logs", "-l", "app=printer", "--timestamps", "--prefix").splitlines()
    assert re.fullmatch(r"\[pod/printer/main\] \d{4}-\d\d-\d\dT[\d:.]+Z line 1", stamped[0])
    assert len(kubectl("logs", "printer", "--since=1h").splitlines()) == 6
    assert kubectl("logs", "printer", "--since-time=2099-01-01T00:00:00Z") == ""
    assert kubectl("logs", "printer", "--limit-bytes=4") in ("line", "bad\n")
    assert 'previous terminated container "main" in pod "printer" not found' in kubectl.fails(
        "logs", "printer", "--previous"
    )


def test_following_a_log_ends_with_the_container(kubectl: Kubectl, pods: Pods, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pod = pods.run("slow", "sh", "-c", f"echo first; cat {gate}; echo last")
    client = kubectl.start("logs", "-f", "slow")
    assert client.stdout is not None
    assert client.stdout.readline() == "first\n"
    gate.write_text("middle\n")
    assert client.stdout.read() == "middle\nlast\n"
    assert client.wait(10) == 0
    client.stdout.close()
    pods.start(pod, "sh", "-c", "echo again; sleep 600")
    _until(lambda: kubectl("logs", "slow") == "again\n", "the second container has no log")
    assert kubectl("logs", "slow", "--previous") == "first\nmiddle\nlast\n"


def test_a_container_that_has_not_started_has_no_log(kubectl: Kubectl, pods: Pods) -> None:
    pods.bare(pod_of("pending", "main", "other"))
    error = kubectl.fails("logs", "pending", "-c", "other")
    assert 'container "other" in pod "pending" is waiting to start: ContainerCreating' in error


# port-forward


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_ports_are_forwarded(kubectl: Kubectl, pods: Pods, websockets: str) -> None:
    name = f"web-{websockets}"
    pods.run(name, PYTHON, "-c", WEB)
    _until(lambda: kubectl("logs", name).strip(), "the server does not start")
    port = int(kubectl("logs", name))
    environment = {**kubectl.environment, "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets}
    with _forwarding(kubectl.binary, environment, name, port) as local:
        results: dict[int, bytes] = {}

        def fetch(number: int) -> None:
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/{number}", timeout=20) as answer:
                results[number] = answer.read()

        fetchers = [threading.Thread(target=fetch, args=(number,)) for number in range(12)]
        for fetcher in fetchers:
            fetcher.start()
        for fetcher in fetchers:
            fetcher.join(30)
        assert results == {number: f"/{number}".encode() * 1000 for number in range(12)}


def test_a_port_without_a_listener_is_an_error(kubectl: Kubectl, shell: Manifest) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    message = f"failed to connect to localhost:{port} inside the pod: connection refused"
    with (
        _forwarding(kubectl.binary, kubectl.environment, "shell", port, errors=message) as local,
        socket.create_connection(("127.0.0.1", local), timeout=10) as connection,
    ):
        assert connection.recv(10) == b""


@pytest.mark.slow
def test_port_forward_with_the_python_client(serving: Serving, kubectl: Kubectl, pods: Pods) -> None:
    pods.run("web-python", PYTHON, "-c", WEB)
    _until(lambda: kubectl("logs", "web-python").strip(), "the server does not start")
    port = int(kubectl("logs", "web-python"))
    script = f"""
from kubernetes.stream import portforward
forward = portforward(api.connect_get_namespaced_pod_portforward, "web-python", "default", ports="{port}")
connection = forward.socket({port})
connection.settimeout(10)
connection.sendall(b"GET /x HTTP/1.0\\r\\n\\r\\n")
answered = b""
while piece := connection.recv(65536):
    answered += piece
print(answered.endswith(b"/x" * 1000), forward.error({port}))
"""
    assert _python_client(serving, script) == "True None\n"


# Helpers


def _python_client(serving: Serving, script: str) -> str:
    """Output of a script that uses Kubernetes' own Python client as `api`."""
    start = (
        "from kubernetes import client, config\n"
        f"api = client.CoreV1Api(config.new_client_from_config({str(serving.kubeconfig)!r}))\n"
    )
    done = subprocess.run(
        [PYTHON, "-c", start + script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class _Terminal:
    """A pseudo-terminal with a kubectl in it."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]") -> None:
        self._master = master
        self._process = process
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self._process.pid, 28)  # SIGWINCH

    def read(self, seconds: float) -> str:
        """All output so far, read until there is none for `seconds`."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self._master, 65536).decode()
            except OSError:
                break
        return self.seen

    def wait_for(self, text: str) -> None:
        _until(lambda: text in self.read(0.05), f"{text!r} is not in {self.seen!r}")

    def end(self) -> int:
        self.read(0.5)
        return self._process.wait(10)


@contextmanager
def _terminal(kubectl: Kubectl, *arguments: str, websockets: str) -> Iterator[_Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**kubectl.environment, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets}
    process = subprocess.Popen(
        [kubectl.binary, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield _Terminal(master, process)
    finally:
        process.kill()
        process.wait(10)
        os.close(master)


@contextmanager
def _forwarding(
    binary: str, environment: dict[str, str], pod: str, port: int, errors: str = ""
) -> Iterator[int]:
    """The local port of `kubectl port-forward`, whose standard error must contain `errors`."""
    client = subprocess.Popen(
        [binary, "port-forward", f"pod/{pod}", f":{port}", "--address=127.0.0.1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    assert client.stderr is not None
    try:
        line = client.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line + client.stderr.read()
        yield int(found.group(1))
        if errors:
            client.wait(10)
    finally:
        client.terminate()
        client.wait(10)
        stderr = client.stderr.read()
        client.stdout.close()
        client.stderr.close()
    assert errors in stderr
    assert errors or not stderr


def _until(condition: Any, message: str) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.02)

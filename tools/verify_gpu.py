"""Verifies GPUs on local nodes: what pods see of the GPUs of this machine, in each runtime.

    python tools/verify_gpu.py [--runtime netns ...] [--json] [--keep-logs DIRECTORY]

Starts a temporary cluster per runtime and runs pods in it. Needs a machine with an NVIDIA GPU and its driver; PyTorch
and nvidia-ml-py are used if they are installed. Exits with 0 if no check failed, with 1 otherwise, and with 2 on a
machine without a GPU.
"""

import argparse
import asyncio
import contextlib
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from volcano.base.metrics import render
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import JOB, NODE, POD, RESOURCE_CLAIM_TEMPLATE
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.runtimes.probe import RuntimeNotAvailable
from volcano.nodes.shim.isolation import cgroups, device_cgroups
from volcano.views.devices import GpuFigures, parse_gpu_load

RUNTIMES = ("plain", "netns", "userns")
NAMESPACE = "default"
GIB = 1 << 30
METRICS_TIMEOUT = 15.0
POD_TIMEOUT = 180.0  # seconds; the first import of PyTorch is slow
PREFIX = "RESULT "
OOM_LIMIT_MIB, OOM_USE_MIB = 64, 512
SHARED_BY, SHARED_MEMORY_MIB = 4, 8000

# Runs in the pods: prints one line of JSON about the GPUs that it finds.
PROBE = r"""
import ctypes, glob, json, os, subprocess, sys

found = {"files": {}, "environment": {}}
for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"):
    if name in os.environ:
        found["environment"][name] = os.environ[name]
for path in [*sorted(glob.glob("/dev/nvidia*")), *sorted(glob.glob("/dev/nvidia-caps/*")), *sys.argv[2:]]:
    if os.path.isdir(path):
        continue
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        found["files"][path] = "open"
    except OSError as error:
        found["files"][path] = error.strerror
found["proc"] = sorted(glob.glob("/proc/driver/nvidia/gpus/*"))
try:
    smi = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    found["nvidia-smi"] = {"code": smi.returncode, "output": (smi.stdout + smi.stderr).strip()}
except (OSError, subprocess.TimeoutExpired) as error:
    found["nvidia-smi"] = {"code": -1, "output": str(error)}
try:
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    found["cuInit"] = cuda.cuInit(0)
    found["cuDeviceGetCount"] = cuda.cuDeviceGetCount(ctypes.byref(count))
    found["cuda"] = count.value
except OSError as error:
    found["cuInit"], found["cuda"] = str(error), 0
try:
    nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint(0)
    found["nvmlInit"] = nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found["nvml"] = count.value
except OSError as error:
    found["nvmlInit"], found["nvml"] = str(error), 0
if "torch" in sys.argv[1]:
    try:
        import time

        import torch

        found["torch"] = {"version": torch.__version__, "devices": torch.cuda.device_count()}
        if torch.cuda.is_available():
            size = 8192
            left = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
            right = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
            for _ in range(3):
                left @ right
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(10):
                left @ right
            torch.cuda.synchronize()
            seconds = (time.perf_counter() - started) / 10
            found["torch"]["tflops"] = round(2 * size**3 / seconds / 1e12, 1)
            found["torch"]["name"] = torch.cuda.get_device_name(0)
    except Exception as error:
        found["torch"] = {"error": repr(error)}
print("RESULT " + json.dumps(found), flush=True)
"""

# The pods of a gang stay until all have started.
WAIT_FOR_OTHERS = "import time; time.sleep(5)\n"

EAT_MEMORY = f"""
import time
held = []
for _ in range({OOM_USE_MIB}):
    held.append(bytearray(b"x") * (1 << 20))
time.sleep(5)
print("not killed", flush=True)
"""


@dataclass(frozen=True)
class Check:
    """Result of one check; `ok` is None where it was not possible."""

    runtime: str
    what: str
    ok: bool | None
    detail: str
    seconds: float = 0.0
    facts: Any = None

    @property
    def word(self) -> str:
        return {True: "passed", False: "FAILED", None: "skipped"}[self.ok]


def main() -> int:
    arguments = _arguments()
    if not shutil.which("nvidia-smi") and not glob.glob("/dev/nvidia[0-9]*"):
        print("this machine has no NVIDIA GPU: neither nvidia-smi nor /dev/nvidia0 exists", file=sys.stderr)
        return 2
    host = _host_facts()
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="volcano-verify-") as top:
        try:
            for runtime in arguments.runtime or RUNTIMES:
                checks += asyncio.run(_verify_runtime(runtime, Path(top) / runtime, arguments))
        finally:
            if arguments.keep_logs is not None:
                _copy_logs(Path(top), arguments.keep_logs)
    if arguments.json:
        print(json.dumps({"host": host, "checks": [asdict(check) for check in checks]}, indent=1))
    else:
        _print_table(host, checks)
    return 1 if any(check.ok is False for check in checks) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--runtime", action="append", choices=RUNTIMES, help="verify only this one; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print all facts as JSON")
    parser.add_argument("--no-torch", action="store_true", help="do not use PyTorch")
    parser.add_argument(
        "--keep-logs", type=Path, metavar="DIRECTORY", help="copy the logs of the pods to a directory"
    )
    return parser.parse_args()


def _copy_logs(top: Path, target: Path) -> None:
    """Copies the logs of all pods, with their place below the temporary directory."""
    for log in top.rglob("*.log"):
        copy = target / log.relative_to(top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, copy)


def _host_facts() -> dict[str, Any]:
    return {
        "gpus": _output("nvidia-smi", "-L").splitlines(),
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "kernel": os.uname().release,
        "cgroup": _output("stat", "-fc", "%T", "/sys/fs/cgroup"),
        "user": os.geteuid(),
        "python": sys.version.split()[0],
        "nvidia-ml-py": importlib.util.find_spec("pynvml") is not None,
        "torch": importlib.util.find_spec("torch") is not None,
    }


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


# Checks.


async def _verify_runtime(runtime: str, directory: Path, arguments: argparse.Namespace) -> list[Check]:
    torch = "torch" if importlib.util.find_spec("torch") and not arguments.no_torch else "none"
    checks: list[Check] = []
    try:
        async with _cluster(directory / "whole", runtime) as cluster:
            rig = Rig(cluster, runtime)
            checks.append(await rig.check("node reports its GPUs", rig.node_reports))
            checks.append(
                await rig.check("pod with one GPU uses exactly that one", lambda: rig.with_gpu(torch))
            )
            checks.append(await rig.check("pod without a request finds none", rig.without_gpu))
            checks.append(await rig.check("load of the GPUs is reported", rig.reports_load))
            checks.append(await rig.check("pod over its memory limit is OOMKilled", rig.over_memory_limit))
        what = "GPU of a finished pod is free after a restart"
        checks.append(await _check(runtime, what, lambda: _restarted(directory / "restarted", runtime)))
        async with _cluster(directory / "shared", runtime, share_gpus=SHARED_BY) as cluster:
            rig = Rig(cluster, runtime)
            what = f"gang of {SHARED_BY} shares one card"
            checks.append(await rig.check(what, lambda: rig.gang_on_one_card(torch)))
        async with _cluster(directory / "claims", runtime, dra=True) as cluster:
            rig = Rig(cluster, runtime)
            checks.append(await rig.check("pod with a claim of one GPU uses it", rig.with_claim))
    except RuntimeNotAvailable as error:
        return [Check(runtime, "runtime is available", None, str(error))]
    except Exception as error:  # the remaining runtimes are still verified
        checks.append(Check(runtime, "cluster starts", False, repr(error)))
    return checks


@asynccontextmanager
async def _cluster(directory: Path, runtime: str, **local: Any) -> AsyncIterator[LocalCluster]:
    directory.mkdir(parents=True)
    async with LocalCluster(_options(directory, runtime, **local)) as cluster:
        yield cluster


def _options(directory: Path, runtime: str, *, durable: bool = False, **local: Any) -> ClusterOptions:
    options = LocalNodeOptions(nodes=1, runtime=runtime, keep_logs=True, **local)
    return ClusterOptions(directory, durable=durable, local=options)


async def _restarted(directory: Path, runtime: str, **local: Any) -> tuple[bool, str, Any]:
    """Runs a pod with every GPU before and after a restart in which pods are kept, as on SIGTERM."""
    directory.mkdir(parents=True)
    results = []
    for start in range(2):
        cluster = LocalCluster(_options(directory, runtime, durable=True, **local))
        try:
            await cluster.start()
            node = (await cluster.client.list(NODE)).items[0]
            limits = {"nvidia.com/gpu": node["status"]["allocatable"].get("nvidia.com/gpu", "0")}
            await cluster.client.create(POD, _pod(f"start-{start}", ["true"], limits))
            ended = await Rig(cluster, runtime).ended(f"start-{start}")
            results.append(ended["status"].get("phase"))
        finally:
            await cluster.stop(keep_pods=start == 0)
    return (
        results == ["Succeeded", "Succeeded"],
        f"pods with all GPUs: {', '.join(map(str, results))}",
        results,
    )


async def _check(runtime: str, what: str, run: Callable[[], Any]) -> Check:
    began = time.monotonic()
    try:
        ok, detail, facts = await run()
    except Exception as error:  # a check that breaks is a failed check, and the others still run
        ok, detail, facts = False, repr(error), None
    return Check(runtime, what, ok, detail, round(time.monotonic() - began, 1), facts)


class Rig:
    """Runs pods on one cluster and judges what they report."""

    def __init__(self, cluster: LocalCluster, runtime: str) -> None:
        self._cluster = cluster
        self._runtime = runtime
        self._count = 0

    async def check(self, what: str, run: Callable[[], Any]) -> Check:
        return await _check(self._runtime, what, run)

    async def node_reports(self) -> tuple[bool, str, Any]:
        node = (await self._cluster.client.list(NODE)).items[0]
        allocatable = node["status"]["allocatable"]
        wanted = str(len([line for line in _host_facts()["gpus"] if line.startswith("GPU ")]))
        got = allocatable.get("nvidia.com/gpu", "0")
        return got == wanted, f"nvidia.com/gpu {got} of {wanted}", allocatable

    async def with_gpu(self, torch: str) -> tuple[bool, str, Any]:
        limits = {"nvidia.com/gpu": "1"}
        found, phase = await self._probe([sys.executable, "-c", PROBE, torch], limits)
        if found is None:
            return False, phase, None
        cards = _cards(found)
        ok = len(cards) == 1 and found["cuInit"] == 0 and found["cuda"] == 1
        detail = f"nvidia-smi {cards or found['nvidia-smi']['output'][:80]!r}, CUDA {found['cuda']} ({found['cuInit']})"
        if "torch" in found:
            ok = ok and bool(found["torch"].get("tflops"))
            detail += f", PyTorch {found['torch'].get('tflops') or found['torch']} TFLOP/s"
        return ok, detail, found

    async def reports_load(self) -> tuple[bool | None, str, Any]:
        if importlib.util.find_spec("pynvml") is None:
            return None, "nvidia-ml-py is not installed", None
        deadline = time.monotonic() + METRICS_TIMEOUT
        found: tuple[GpuFigures, ...] = ()
        while not found and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            found = parse_gpu_load(render(self._cluster.metrics).decode())
        detail = ", ".join(
            f"{each.name} {each.utilization} {each.memory_used / GIB:.1f}/{each.memory / GIB:.0f}Gi "
            f"{each.temperature} C {each.power} W healthy {each.healthy}"
            for each in found
        )
        wanted = len([line for line in _host_facts()["gpus"] if line.startswith("GPU ")])
        return (
            len(found) == wanted and all(each.healthy for each in found),
            detail,
            [asdict(each) for each in found],
        )

    async def with_claim(self) -> tuple[bool | None, str, Any]:
        if importlib.util.find_spec("volcano.scheduler.plugins.predicates.devices") is None:
            return None, "the scheduler allocates no resource claims", None
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        template = {
            "apiVersion": RESOURCE_CLAIM_TEMPLATE.api_version,
            "kind": RESOURCE_CLAIM_TEMPLATE.kind,
            "metadata": {"name": "one", "namespace": NAMESPACE},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await self._cluster.client.create(RESOURCE_CLAIM_TEMPLATE, template)
        pod = _pod("claiming", [sys.executable, "-c", PROBE, "none"], {})
        pod["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "one"}]
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "claims": [{"name": "own"}]}
        await self._cluster.client.create(POD, pod)
        ended = await self.ended("claiming")
        found = self._result_of(ended)
        if found is None:
            return False, f"{ended['status']}", None
        return len(_cards(found)) == 1 and found["cuda"] == 1, f"nvidia-smi {_cards(found)}", found

    async def without_gpu(self) -> tuple[bool | None, str, Any]:
        known = sorted(glob.glob("/dev/nvidia[0-9]*"))
        found, phase = await self._probe([sys.executable, "-c", PROBE, "none", *known], {})
        if found is None:
            return False, phase, None
        opened = [path for path, result in found["files"].items() if result == "open"]
        cards = _cards(found)
        ok: bool | None = not opened and not cards and found["cuda"] == 0
        if not ok and found["cuda"] == 0 and self._runtime == "plain" and (why := _not_enforced()):
            return None, f"CUDA finds none, but files can be opened: {why}", found
        said = found["nvidia-smi"]["output"][:80]
        detail = f"opened {opened or 'no file'}, nvidia-smi {said!r}, CUDA {found['cuda']}"
        return ok, detail, found

    async def over_memory_limit(self) -> tuple[bool, str, Any]:
        limits = {"memory": f"{OOM_LIMIT_MIB}Mi"}
        pod = await self._run([sys.executable, "-c", EAT_MEMORY], limits)
        ended = pod["status"]["containerStatuses"][0]["state"].get("terminated") or {}
        ok = ended.get("reason") == "OOMKilled"
        return ok, f"limit {OOM_LIMIT_MIB} MiB, used up to {OOM_USE_MIB} MiB: {ended.get('reason')}", ended

    async def gang_on_one_card(self, torch: str) -> tuple[bool, str, Any]:
        limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(SHARED_MEMORY_MIB)}
        command = [sys.executable, "-c", PROBE + WAIT_FOR_OTHERS, torch]
        await self._cluster.client.create(JOB, _job("gang", SHARED_BY, command, limits))
        pods = [await self.ended(f"gang-main-{number}") for number in range(SHARED_BY)]
        found = [self._result_of(pod) for pod in pods]
        spans = [_span_of(pod) for pod in pods]
        together = max(begun for begun, _ in spans) <= min(ended for _, ended in spans)
        cards = [card for each in found if each for card in _cards(each)]
        annotations = [pod["metadata"].get("annotations", {}) for pod in pods]
        phases = {each.get("volcano.sh/bind-phase") for each in annotations}
        speeds = [each["torch"].get("tflops") for each in found if each and "torch" in each]
        ok = (
            len(cards) == SHARED_BY
            and len(set(cards)) == 1
            and together
            and phases == {"success"}
            and all(speeds)
        )
        detail = f"{len(cards)} pods saw {sorted(set(cards))}, at the same time: {together}, "
        detail += f"bind-phase {sorted(map(str, phases))}"
        detail += f", PyTorch {speeds} TFLOP/s" if speeds else ""
        return ok, detail, {"pods": found, "annotations": annotations}

    async def _probe(
        self, command: Sequence[str], limits: dict[str, str]
    ) -> tuple[dict[str, Any] | None, str]:
        pod = await self._run(command, limits)
        text = self._log_of(pod)
        return self._result_of(pod), f"phase {pod['status'].get('phase')}: {text[-500:] or pod['status']}"

    def _result_of(self, pod: Manifest) -> dict[str, Any] | None:
        for line in self._log_of(pod).splitlines():
            if PREFIX in line:
                result: dict[str, Any] = json.loads(line.partition(PREFIX)[2])
                return result
        return None

    async def _run(self, command: Sequence[str], limits: dict[str, str]) -> Manifest:
        """Runs a pod to its end."""
        self._count += 1
        name = f"verify-{self._count}"
        await self._cluster.client.create(POD, _pod(name, command, limits))
        return await self.ended(name)

    async def ended(self, name: str) -> Manifest:
        pod: Manifest = {}
        try:
            async with asyncio.timeout(POD_TIMEOUT):
                while (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                    await asyncio.sleep(0.1)
                    with contextlib.suppress(NotFound):
                        pod = await self._cluster.client.get(POD, Key(NAMESPACE, name))
        except TimeoutError:
            conditions = [each.get("message") for each in (pod.get("status") or {}).get("conditions") or ()]
            raise TimeoutError(f"pod {name} has not ended: {conditions}") from None
        return pod

    def _log_of(self, pod: Manifest) -> str:
        nodes = self._cluster.local_nodes
        located = nodes.locate(pod) if nodes is not None else None
        path = located.log_path("main") if located is not None else None
        return path.read_text() if path is not None and path.exists() else ""


def _job(name: str, replicas: int, command: Sequence[str], limits: dict[str, str]) -> Manifest:
    spec = _pod(name, command, limits)["spec"]
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "tasks": [{"name": "main", "replicas": replicas, "template": {"spec": spec}}],
        },
    }


def _span_of(pod: Manifest) -> tuple[str, str]:
    """Start and end of a container; timestamps can be compared as text."""
    ended = pod["status"]["containerStatuses"][0]["state"].get("terminated") or {}
    return ended.get("startedAt", "9"), ended.get("finishedAt", "0")


def _pod(name: str, command: Sequence[str], limits: dict[str, str]) -> Manifest:
    container = {"name": "main", "image": "none", "command": list(command), "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }


def _not_enforced() -> str:
    """Why plain processes cannot be denied GPUs here; empty if they can."""
    reason = device_cgroups.unavailable_reason()
    return reason or ("" if cgroups.own_unified() else "no control group of version 2 can be written to")


def _cards(found: dict[str, Any]) -> list[str]:
    if found["nvidia-smi"]["code"] != 0:
        return []
    return [line for line in found["nvidia-smi"]["output"].splitlines() if line.startswith("GPU ")]


def _print_table(host: dict[str, Any], checks: Sequence[Check]) -> None:
    print(f"{'; '.join(host['gpus'])}")
    print(f"driver {host['driver']}, kernel {host['kernel']}, {host['cgroup']}, user {host['user']}\n")
    width = max(len(check.what) for check in checks)
    for check in checks:
        print(f"{check.runtime:7} {check.what:{width}} {check.word:8} {check.seconds:5.1f} s  {check.detail}")


if __name__ == "__main__":
    sys.exit(main())

"""Operators as processes on this host, on a real API server: their control part, with simulated pods.

A kube-apiserver calls webhooks through a Service. Here those Services have the type ExternalName and lead to loopback,
so that certificates and client configurations stay as the operator writes them. Each process has the rights of its
service account, and volumes of its pod where it expects them.
"""

import base64
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.frameworks.examples import needs
from tests.k8s.plain import StatusError, until
from tests.k8s.programs import Programs, free_port
from volcano.frameworks.cache import Cache
from volcano.frameworks.install import recipe_of
from volcano.frameworks.operators import FILE
from volcano.kube.api.manifest import Manifest
from volcano.nodes.image_map import ImageMap, mapped_path

READY_WITHIN = 90.0
SERVING_CERTS = Path(
    "/tmp/k8s-webhook-server/serving-certs"
)  # where operators written with controller-runtime look


@dataclass(frozen=True, slots=True)
class Started:
    """How an operator is started beside others: arguments to add, by container, and changes to its ConfigMaps.

    `replaced` has texts of ConfigMaps, `data` what is added to them, by their name. `{webhook}` and `{health}` in
    arguments, new texts and variables stand for ports that are free, `{api}` for that of the API server.
    """

    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class ControlPart:
    """The processes of one operator."""

    def __init__(self, programs: Programs, framework: str, started: Started) -> None:
        self._programs = programs
        self._directory = programs.directory / framework
        self._framework, self._started = framework, started
        api = programs.cluster.url.rpartition(":")[2]
        self._ports = {"webhook": free_port(), "health": free_port(), "api": int(api)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended = threading.Event()
        self._secrets: list[tuple[str, Path]] = []  # path of a Secret, and the directory of its files

    @property
    def log(self) -> str:
        """What all processes have logged."""
        return "\n".join(path.read_text() for path in sorted(self._directory.glob("*.log")))

    def start(self) -> None:
        """Applies the manifests of the operator, and starts a process for each container of its Deployments."""
        path = Cache().path_of(recipe_of(self._framework))
        manifests = [each for each in yaml.safe_load_all((path / FILE).read_text()) if each]
        deployments = [each for each in manifests if each["kind"] == "Deployment"]
        self._directory.mkdir()
        others = [self._adapted(each) for each in manifests if each["kind"] != "Deployment"]
        self.apply(others)
        ready = self._programs.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=50s")
        assert ready.returncode == 0, ready.stderr
        for deployment in deployments:
            spec = deployment["spec"]["template"]["spec"]
            for container in spec["containers"]:
                self._start(deployment["metadata"], spec, container)
        threading.Thread(target=self._copy_secrets, daemon=True).start()

    def apply(self, manifests: Sequence[Manifest]) -> None:
        """Applies manifests; a webhook may not answer yet, and a kind not be served yet."""
        text = yaml.safe_dump_all(manifests)
        command = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        done = self._programs.kubectl(*command, stdin=text)

        def applied() -> bool:
            nonlocal done
            if done.returncode != 0:
                done = self._programs.kubectl(*command, stdin=text)
            return done.returncode == 0

        until(applied, READY_WITHIN, lambda: f"{done.stderr}\n{self.log[-3000:]}")

    def run(self, pod: Manifest) -> None:
        """Runs the programs of a simulated pod, with its own /tmp and volumes and the rights of its service account.

        Directories that this host may lack, where volumes of the pod are mounted, appear by a mount over their parent.
        """
        metadata, spec = pod["metadata"], pod["spec"]
        directory = self._directory / metadata["name"]
        temporary = directory / "tmp"
        temporary.mkdir(parents=True)
        authority = self._programs.cluster.ca_file
        shutil.copy(authority, temporary / "ca.crt")
        config = self._kubeconfig(metadata["namespace"], spec["serviceAccountName"]).read_text()
        (temporary / "kubeconfig").write_text(config.replace(str(authority), "/tmp/ca.crt"))
        fields = {f"metadata.{each}": metadata[each] for each in ("name", "namespace", "uid")}
        empty = {each["name"] for each in spec["volumes"] if "emptyDir" in each}
        for container in (*spec["initContainers"], *spec["containers"]):
            mounts = []
            for place in (
                Path(each["mountPath"]) for each in container["volumeMounts"] if each["name"] in empty
            ):
                (directory / place.parent.name / place.name).mkdir(parents=True, exist_ok=True)
                mounts.append((directory / place.parent.name, place.parent))
            command, variables = self._program(container, fields)
            done = subprocess.run(
                _mounted([*mounts, (temporary, Path("/tmp"))], command),
                capture_output=True,
                text=True,
                check=False,
                timeout=READY_WITHIN,
                cwd="/",
                env={**os.environ, **variables, "KUBECONFIG": "/tmp/kubeconfig"},
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def stop(self) -> None:
        self._ended.set()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _adapted(self, manifest: Manifest) -> Manifest:
        if manifest["kind"] == "ConfigMap":
            added = self._started.data.get(manifest["metadata"]["name"], {})
            texts = {name: self._replaced(text) for name, text in manifest.get("data", {}).items()}
            manifest["data"] = {**texts, **added}
        if manifest["kind"] == "Service":
            manifest["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        for hook in manifest.get("webhooks") or ():
            hook["clientConfig"]["service"]["port"] = self._ports["webhook"]
        conversion = manifest.get("spec", {}).get("conversion") or {}
        if "webhook" in conversion:
            conversion["webhook"]["clientConfig"]["service"]["port"] = self._ports["webhook"]
        return manifest

    def _replaced(self, text: str) -> str:
        for old, new in self._started.replaced.items():
            assert old in text, f"{self._framework}: no {old!r} in {text}"
            text = text.replace(old, new.format(**self._ports))
        return text

    def _start(self, metadata: Manifest, pod: Manifest, container: Manifest) -> None:
        name, namespace = container["name"], metadata["namespace"]
        command, variables = self._program(
            container, {"metadata.namespace": namespace, "metadata.name": name}
        )
        command += [each.format(**self._ports) for each in self._started.arguments.get(name, ())]
        mounts = []
        for mount in container.get("volumeMounts", ()):
            place, source = mount["mountPath"], self._volume(namespace, pod, mount)
            if Path(place) == SERVING_CERTS:
                mounts.append(source)
            elif place != "/tmp":
                command[1:] = [each.replace(place, str(source)) for each in command[1:]]
                variables = {key: value.replace(place, str(source)) for key, value in variables.items()}
        environment = {
            **os.environ,
            **variables,
            **{key: text.format(**self._ports) for key, text in self._started.environment.items()},
            "KUBECONFIG": str(self._kubeconfig(namespace, pod["serviceAccountName"])),
        }
        if mounts:  # a directory of its own at a path that cannot be chosen
            command = _mounted([(mounts[0], SERVING_CERTS)], command)
            SERVING_CERTS.mkdir(parents=True, exist_ok=True)
        with open(self._directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory, env=environment)
        self._processes.append(process)

    def _program(self, container: Manifest, fields: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """The command and the environment of a container, as programs of this host."""
        recipe = recipe_of(self._framework)
        image = ImageMap(recipe.images(Cache().path_of(recipe))).find(container["image"])
        assert image is not None, container["image"]
        hosts = {path.target: path.source for path in map(mapped_path, image.paths)}
        command = [*(container.get("command") or image.entrypoint), *container.get("args", ())]
        command[0] = hosts.get(command[0], command[0])
        variables = dict(image.environment)
        for each in container.get("env", ()):
            source = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            variables[each["name"]] = fields.get(source, "127.0.0.1") if source else each.get("value", "")
        return command, variables

    def _volume(self, namespace: str, pod: Manifest, mount: Manifest) -> Path:
        """The directory of a volume, or the file in it that is mounted."""
        (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
        path = self._directory / f"volume-{volume['name']}"
        path.mkdir(exist_ok=True)
        if "secret" in volume:
            secret = f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}"
            self._secrets.append((secret, path))
        if "configMap" in volume:
            found = self._programs.api.get(
                f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}"
            )
            for name, text in found["data"].items():
                (path / name).write_text(text)
        return path / mount["subPath"] if "subPath" in mount else path

    def _kubeconfig(self, namespace: str, account: str) -> Path:
        """A file with a token of a service account."""
        path = self._directory / f"{namespace}-{account}.kubeconfig"
        made = self._programs.kubectl(
            "create", "token", account, "--namespace", namespace, "--duration", "1h"
        )
        assert made.returncode == 0, made.stderr
        config = yaml.safe_load(self._programs.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": made.stdout.strip()}
        # As in a pod. Spark does not support servers that are not verified.
        authority = str(self._programs.cluster.ca_file)
        config["clusters"][0]["cluster"] = {
            "server": self._programs.cluster.url,
            "certificate-authority": authority,
        }
        config["contexts"][0]["context"]["namespace"] = namespace
        path.write_text(yaml.safe_dump(config))
        return path

    def _copy_secrets(self) -> None:
        """Keeps the files of Secret volumes as they are in the cluster."""
        while not self._ended.wait(0.5):
            for secret, directory in self._secrets:
                with contextlib.suppress(StatusError, OSError):
                    for name, value in (self._programs.api.get(secret).get("data") or {}).items():
                        content = base64.b64decode(value)
                        file = directory / name
                        if not file.exists() or file.read_bytes() != content:
                            file.write_bytes(content)


def _mounted(mounts: Sequence[tuple[Path, Path]], command: Sequence[str]) -> list[str]:
    """A command in a mount namespace with directories at other places."""
    bind = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done; shift; exec "$@"'
    pairs = [str(path) for mount in mounts for path in mount]
    return ["unshare", "--mount", "sh", "-c", bind, "sh", *pairs, "--", *command]


@contextlib.contextmanager
def control_part(programs: Programs, framework: str, started: Started | None = None) -> Iterator[ControlPart]:
    """A running operator; skips the test where it cannot run."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and the program unshare, for a directory of certificates at a given path")
    needs(framework)
    part = ControlPart(programs, framework, started or Started())
    try:
        part.start()
        yield part
    finally:
        part.stop()
        with contextlib.suppress(OSError):  # used by others, or not made
            SERVING_CERTS.rmdir()
            SERVING_CERTS.parent.rmdir()

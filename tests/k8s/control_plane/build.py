"""Builds a real control plane and Helm from published Go modules, once, into a cache outside the repository.

Run as a program it prints progress; it exits with 77 where Go is missing, so that the caller can skip.
With `--path NAME` it only prints the path of that program. Of several builds at a time one builds and the others wait.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "1.36.1"
HERE = Path(__file__).parent
HELM_VERSION = "4.2.4"  # the release line built on the same release of Kubernetes
SKIPPED = 77


@dataclass(frozen=True, slots=True)
class Module:
    """A wrapper module: the folder of its go.mod, and the version stamped into its programs."""

    folder: Path
    stamps: tuple[str, ...]


_STAMP = "k8s.io/component-base/version"
KUBERNETES = Module(
    HERE,
    (
        f"{_STAMP}.gitVersion=v{VERSION}",
        f"{_STAMP}.gitMajor={VERSION.split('.')[0]}",
        f"{_STAMP}.gitMinor={VERSION.split('.')[1]}",
    ),
)
HELM = Module(HERE / "helm", (f"helm.sh/helm/v4/internal/version.version=v{HELM_VERSION}",))
PROGRAMS = {
    "etcd": (KUBERNETES, "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kubectl": (KUBERNETES, "k8s.io/kubernetes/cmd/kubectl"),
    "kube-controller-manager": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": (KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    "helm": (HELM, "helm.sh/helm/v4/cmd/helm"),
}


def cache() -> Path:
    """The folder of the built programs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "volcano-k8s" / f"v{VERSION}"


def missing() -> list[str]:
    """The programs that are not built yet."""
    return [name for name in PROGRAMS if not (cache() / name).exists()]


def program(name: str) -> Path:
    """The path of a built program."""
    return cache() / name


def build() -> None:
    """Builds the missing programs; about nine minutes on two cores the first time."""
    with _locked():
        for left in cache().glob(".build-*"):  # of a build that was killed
            shutil.rmtree(left)
        for name in missing():
            started = time.monotonic()
            print(f"building {name} ...", flush=True)
            _build(name)
            print(f"built {name} in {time.monotonic() - started:.0f} s", flush=True)


@contextmanager
def _locked() -> Iterator[None]:
    """Only one process at a time builds into the cache; another waits until it has ended."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(name: str) -> None:
    module, package = PROGRAMS[name]
    flags = " ".join(["-s -w", *(f"-X {stamp}" for stamp in module.stamps)])
    with TemporaryDirectory(dir=cache(), prefix=".build-") as work:
        shutil.copy(module.folder / "go.mod", work)
        built = Path(work) / name
        subprocess.run(
            ["go", "build", "-mod=mod", "-ldflags", flags, "-o", str(built), package],
            cwd=work,
            env=_environment(),
            check=True,
        )
        os.replace(built, program(name))


def _environment() -> dict[str, str]:
    """Go's environment without the fall-back to version control hosts, which can hang for minutes."""
    proxies = subprocess.run(
        ["go", "env", "GOPROXY"], capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = ",".join(part for part in proxies.split(",") if part != "direct")
    return os.environ | {"CGO_ENABLED": "0", "GOPROXY": kept or "off", "GOFLAGS": "-buildvcs=false"}


def main() -> int:
    if sys.argv[1:2] == ["--path"]:
        print(program(sys.argv[2]))
        return 0
    if not missing():
        return 0
    if shutil.which("go") is None:
        return SKIPPED
    build()
    return 0


if __name__ == "__main__":
    sys.exit(main())

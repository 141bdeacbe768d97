"""Builds a real control plane from published Go modules, once, into a cache outside the repository.

Run as a program it prints progress; it exits with 77 where Go is missing, so that the caller can skip.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSION = "1.36.1"
HERE = Path(__file__).parent
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
SKIPPED = 77


def cache() -> Path:
    """Where the built programs are kept."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "volcano-k8s" / f"v{VERSION}"


def missing() -> list[str]:
    """The programs that are not built yet."""
    return [name for name in PROGRAMS if not (cache() / name).exists()]


def program(name: str) -> Path:
    """The path of a built program."""
    return cache() / name


def build() -> None:
    """Builds what is missing; about seven minutes on two cores the first time."""
    work = cache() / "build"
    work.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "go.mod", work / "go.mod")
    major, minor, _ = VERSION.split(".")
    stamp = f"-X k8s.io/component-base/version.gitVersion=v{VERSION}"
    stamp += f" -X k8s.io/component-base/version.gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}"
    for name in missing():
        started = time.monotonic()
        print(f"building {name} {VERSION} ...", flush=True)
        target = cache() / name
        subprocess.run(
            ["go", "build", "-mod=mod", "-ldflags", f"-s -w {stamp}", "-o", f"{target}.new", PROGRAMS[name]],
            cwd=work,
            env=_environment(),
            check=True,
        )
        os.replace(f"{target}.new", target)
        print(f"built {name} in {time.monotonic() - started:.0f} s", flush=True)


def _environment() -> dict[str, str]:
    """Go's environment without the fall-back to version control hosts, which can hang for minutes."""
    proxies = subprocess.run(
        ["go", "env", "GOPROXY"], capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = ",".join(part for part in proxies.split(",") if part != "direct")
    return os.environ | {"CGO_ENABLED": "0", "GOPROXY": kept or "off", "GOFLAGS": "-buildvcs=false"}


def main() -> int:
    if not missing():
        return 0
    if shutil.which("go") is None:
        return SKIPPED
    build()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A process like the chart's containers: user 1000, no capabilities, a read-only root, a pod's ServiceAccount.

No container engine is needed: util-linux creates the namespaces.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

CONFIG = "/run/config"
SCRATCH = "/var/tmp"  # not /tmp, where the programs themselves may be
# $1 is a folder with `account` and `config`; environment variables and the command follow.
SCRIPT = f"""
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io {CONFIG}
cp -r "$1/account" /run/secrets/kubernetes.io/serviceaccount
cp -r "$1/config/." {CONFIG}
mount -o remount,ro /run
mount -t tmpfs tmpfs {SCRATCH}
mount -o remount,bind,ro /
shift
cd {SCRATCH}
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all env -i "$@"
"""
UNSHARE = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--mount", "--keep-caps", "sh", "-c")


def possible() -> bool:
    """Whether such a process can be started on this machine."""
    if not all(map(shutil.which, ("unshare", "setpriv"))):
        return False
    return (
        subprocess.run(
            [*UNSHARE, f"mount -t tmpfs tmpfs {SCRATCH}"], capture_output=True, check=False
        ).returncode
        == 0
    )


def command(folder: Path, server: str, program: str, flags: Sequence[str]) -> list[str]:
    """The command that runs one of our programs as in its pod, with the environment of a pod."""
    binaries = Path(sys.executable).parent
    host = urlsplit(server)
    variables = {
        "PATH": f"{binaries}:/usr/bin:/bin",
        "HOME": SCRATCH,
        "TMPDIR": SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "KUBERNETES_SERVICE_HOST": str(host.hostname),
        "KUBERNETES_SERVICE_PORT": str(host.port),
    }
    pairs = [f"{name}={value}" for name, value in variables.items()]
    return [*UNSHARE, SCRIPT, "sh", str(folder), *pairs, str(binaries / program), *flags]

"""sshd in one pod, ssh in another, as MPI jobs use them: root, keys from a volume, port 22."""

import subprocess
from pathlib import Path

import pytest

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, in_shim, installed
from volcano.nodes.shim.specs import Mount

pytestmark = pytest.mark.skipif(
    not installed("sshd", "ssh", "ssh-keygen"), reason="openssh's server and client are not installed"
)
QUIET = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=10"


def keys(directory: Path) -> Path:
    """A volume as a kubelet makes one of a secret: open to all, its files behind links."""
    data = directory / "ssh" / "..data"
    data.mkdir(parents=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(data / "id_ed25519")], check=True
    )
    (data / "authorized_keys").write_text((data / "id_ed25519.pub").read_text())
    (data / "config").write_text("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
    for file in data.iterdir():
        file.chmod(0o600)
        (directory / "ssh" / file.name).symlink_to(f"..data/{file.name}")
    (directory / "ssh").chmod(0o1777)
    return directory / "ssh"


def test_a_pod_logs_in_to_another_over_ssh(any_setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str, str]:
        volume = (Mount(str(keys(shim.directory)), "/root/.ssh", read_only=True),)
        server, client = shim.pod("server"), shim.pod("client")
        sshd = shim.start(
            server, "mkdir -p /var/run/sshd; /usr/sbin/sshd; echo up; exec sleep 100", mounts=volume
        )
        sshd.line()
        plain = shim.run(
            client, f"ssh {QUIET} {server.address} 'hostname; id -u; echo $HOME' 2>&1", mounts=volume
        )
        terminal = shim.run(client, f"ssh -tt {QUIET} {server.address} tty 2>&1", mounts=volume, attempt=1)
        copied = shim.run(
            client,
            f"echo x >/tmp/x; scp {QUIET} /tmp/x {server.address}:/tmp/y 2>&1",
            mounts=volume,
            attempt=2,
        )
        there = sshd.execute("cat /tmp/y").output
        sshd.signal(9)
        sshd.ended()
        return plain.output, terminal.output, copied.output + there

    plain, terminal, copied = in_shim(any_setting, body)
    assert plain == "server\n0\n/root\n"
    assert "/dev/pts/" in terminal
    assert copied == "x\n"

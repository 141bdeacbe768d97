"""A container's root is its own: the host's programs can be read, nothing of the host can be written."""

import os
import signal
from pathlib import Path

from tests.nodes.shim.isolation.stage import ForkedShim, Setting, directory_for, host, in_child, in_shim
from volcano.nodes.kubelet.pods.disk_usage import measure_usage
from volcano.nodes.shim.isolation import capabilities, rootfs_template, syscalls, unshare
from volcano.nodes.shim.isolation.host_programs import HostMounts
from volcano.nodes.shim.isolation.rootfs import RootfsLayer
from volcano.nodes.shim.specs import Identity, Mode, Mount, Security


def output(setting: Setting, script: str, **wanted: object) -> list[str]:
    def body(shim: ForkedShim) -> list[str]:
        return shim.run(shim.pod(), f"exec 2>&1; {script}", **wanted).lines

    return in_shim(setting, body)


def test_a_container_is_root_on_a_machine_of_its_own(any_setting: Setting) -> None:
    lines = output(any_setting, "id -u; hostname; echo $$; ls /proc | grep -c '^[0-9]'")
    assert lines[:3] == ["0", "a", "1"]
    assert int(lines[3]) <= 4


def test_the_programs_of_the_host_are_there_and_cannot_be_changed(any_setting: Setting) -> None:
    lines = output(any_setting, "touch /usr/here; touch /usr/bin/env; env true && echo works")
    assert lines[-1] == "works"
    assert all("Read-only file system" in line or "Permission denied" in line for line in lines[:-1])
    assert len(lines) == 3
    assert not os.path.exists("/usr/here")


def test_what_a_container_writes_stays_in_it(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[str, str]:
        pod = shim.pod()
        wrote = shim.run(
            pod, "for d in / /tmp /root /etc /var/lib /run /home; do echo x >$d/volcano-test; done; ls /etc"
        )
        return wrote.output, shim.run(pod, "ls / /tmp /root /etc", attempt=1).output

    first, second = in_shim(setting, body)
    assert "volcano-test" in first
    assert "volcano-test" not in second, "a restarted container has a fresh root"
    places = ("/", "/tmp", "/root", "/etc", "/var/lib", "/run", "/home")
    assert not any(os.path.exists(f"{place}/volcano-test") for place in places)


def test_the_host_s_secrets_are_not_there(as_root: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        pod = shim.pod()
        look = f"ls {shim.directory} {shim.directory}/pods 2>&1; cat /etc/shadow; ls -A /home; ls -A /etc/ssh"
        return shim.run(pod, look).lines

    lines = in_shim(as_root, body)
    assert sum("No such file or directory" in line for line in lines) == 2
    hashes = [line.split(":")[1] for line in host("cat /etc/shadow").splitlines()]
    shadow = [line for line in lines if line.count(":") == 8]
    assert shadow[0].startswith("root:*:")
    assert not any(secret and secret not in "*!" and secret in line for secret in hashes for line in shadow)


def test_a_data_directory_among_the_programs_is_hidden(as_root: Setting) -> None:
    """A directory with host programs may contain the cluster's data directory."""
    with directory_for(0) as directory:
        (directory / "shown" / "data").mkdir(parents=True)
        (directory / "shown" / "data" / "token").write_text("secret")
        (directory / "shown" / "program").write_text("fine")
        shown = HostMounts((str(directory / "shown"),), ())

        def body() -> tuple[list[str], list[str]]:
            users = unshare.unshare_host_namespaces(Mode.NETNS)
            made = rootfs_template.build(
                str(directory / "t"), shown, users, str(directory / "shown" / "data")
            )
            view = made.program_mounts[0][0]
            seen = sorted(os.listdir(view)), os.listdir(f"{view}/data")
            syscalls.unmount(str(directory / "t"))
            return seen

        assert in_child(body) == (["data", "program"], [])


def test_names_and_addresses_are_the_pod_s(setting: Setting) -> None:
    lines = output(setting, "cat /etc/hostname /etc/hosts /etc/resolv.conf")
    assert lines == ["a", "127.0.0.1 localhost", "10.88.0.16 a", "nameserver 10.96.0.10"]


def test_devices_are_few_and_work(setting: Setting) -> None:
    use = "echo gone >/dev/null; echo x >/dev/shm/y; head -c 3 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c"
    lines = output(setting, f"ls /dev; {use}")
    named = {
        "fd",
        "full",
        "mqueue",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
    }
    assert named | {"urandom", "zero"} <= set(lines)
    assert not {"vda", "sda", "mem", "kmsg"} & set(lines)
    assert lines[-2:] == ["3", "8"]


def test_the_kernel_s_settings_cannot_be_changed(setting: Setting) -> None:
    attempts = "echo 1 >/proc/sys/kernel/panic; echo 1 >/proc/sys/vm/swappiness; mkdir /sys/x"
    refused = output(setting, f"cat /proc/keys /proc/timer_list; {attempts}")
    assert len(refused) == 3
    assert all("Read-only file system" in line or "not permitted" in line for line in refused)


def test_a_read_only_root_can_be_read_only(setting: Setting) -> None:
    lines = output(
        setting, "touch /x; touch /etc/x; cat /etc/hostname", security=Security(read_only_root=True)
    )
    assert ["Read-only file system" in line for line in lines] == [True, True, False]


CAPABILITIES = {  # security context: what it comes to
    Security(): capabilities.DEFAULT,
    Security(drop_capabilities=("ALL",)): frozenset[str](),
    Security(drop_capabilities=("ALL",), add_capabilities=("NET_BIND_SERVICE",)): {"NET_BIND_SERVICE"},
    Security(add_capabilities=("CAP_SYS_PTRACE",), drop_capabilities=("MKNOD",)): (
        capabilities.DEFAULT | {"SYS_PTRACE"}
    )
    - {"MKNOD"},
}


def test_capabilities_are_what_the_security_context_says(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[set[int]]:
        pod = shim.pod()
        look = "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status"
        ran = [shim.run(pod, look, security=each, attempt=n) for n, each in enumerate(CAPABILITIES)]
        return [{int(line.split()[1], 16) for line in each.lines} for each in ran]

    assert in_shim(setting, body) == [{capabilities.mask(names)} for names in CAPABILITIES.values()]


def test_a_device_file_that_a_container_makes_is_of_no_use_to_it(as_root: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        volume = shim.directory / "v"
        volume.mkdir()
        script = (
            "exec 2>&1; for d in / /tmp /v /dev /dev/shm; do mknod $d/made c 1 5 && head -c 1 $d/made; done"
        )
        return shim.run(shim.pod(), script, mounts=(Mount(str(volume), "/v"),)).lines

    refused = in_shim(as_root, body)
    assert len(refused) == 5
    assert all("Permission denied" in line for line in refused)


def test_a_privileged_container_may_mount(setting: Setting) -> None:
    lines = output(setting, "mount -t tmpfs x /mnt && echo mounted", security=Security(privileged=True))
    assert lines == ["mounted"]
    refused = output(setting, "mount -t tmpfs x /mnt && echo mounted")
    assert "mounted" not in refused


def test_a_container_runs_as_the_user_it_names(as_root: Setting) -> None:
    who = Identity(user=1234, group=2345, groups=(3456, 4567))
    lines = output(
        as_root, "id -u; id -g; id -G; grep CapEff /proc/self/status; echo x >/dev/stdout", identity=who
    )
    assert lines == ["1234", "2345", "2345 3456 4567", "CapEff:\t0000000000000000", "x"]


def test_where_there_is_one_user_a_container_runs_as_it_and_the_limitation_is_reported(
    as_nobody: Setting,
) -> None:
    def body(shim: ForkedShim) -> tuple[str, str]:
        ran = shim.run(shim.pod(), "id -u", identity=Identity(user=1234, groups=(5,)))
        return ran.output, " ".join(shim.isolation.limitations)

    user, limitations = in_shim(as_nobody, body)
    assert user == "0\n"
    assert "runAsUser" in limitations


def test_no_new_privileges_holds(setting: Setting) -> None:
    script = "grep NoNewPrivs /proc/self/status"
    assert output(setting, script, security=Security(no_new_privileges=True)) == ["NoNewPrivs:\t1"]
    assert output(setting, script) == ["NoNewPrivs:\t0"]


def test_no_descriptor_of_the_shim_reaches_a_container(setting: Setting) -> None:
    assert output(setting, "ls /proc/$$/fd") == ["0", "1", "2"]


def test_without_overlays_a_root_is_a_copy(setting: Setting) -> None:
    def body(shim: ForkedShim) -> list[str]:
        shim.isolation._layer = RootfsLayer(None)
        return shim.run(shim.pod(), "cat /etc/hostname; touch /etc/x && env true && echo works").lines

    assert in_shim(setting, body) == ["a", "works"]


def test_what_a_container_writes_beside_its_volumes_is_found_on_the_disk(setting: Setting) -> None:
    def body(shim: ForkedShim) -> tuple[int, int]:
        pod = shim.pod()
        running = shim.start(pod, "echo up; exec sleep 1000")
        running.line()

        def written() -> int:
            containers = {"containers": [{"name": "main"}]}
            return measure_usage(containers, Path(pod.spec.directory), {}).containers["main"]

        before = written()
        running.execute("head -c 3145728 /dev/urandom >/root/x; sync /root/x")
        after = written()
        running.signal(signal.SIGKILL)
        running.ended()
        return before, after

    before, after = in_shim(setting, body)
    assert before < 1 << 20
    assert 3 << 20 <= after - before < 4 << 20

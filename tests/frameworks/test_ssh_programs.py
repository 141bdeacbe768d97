"""The ssh server and client that the recipe of Open MPI installs into pods."""

import pytest

from volcano.frameworks.programs import ssh_client, ssh_server


@pytest.mark.parametrize(
    ("arguments", "host"),
    [
        pytest.param(["worker-1.job", "true"], "worker-1.job", id="host first"),
        pytest.param(["-x", "-p", "22", "worker-1", "-c"], "worker-1", id="options first"),
        pytest.param(["-o", "BatchMode=yes", "root@worker-1"], "worker-1", id="with a user"),
        pytest.param(["-V"], "", id="no host"),
    ],
)
def test_the_client_finds_the_host_in_its_arguments(arguments: list[str], host: str) -> None:
    assert ssh_client.host_of(arguments) == host


@pytest.mark.parametrize("host", ["worker-0.job", "worker-0"])
def test_the_client_connects_to_the_port_on_which_the_server_of_that_pod_listens(host: str) -> None:
    options = ssh_client.plain_options("/pods/x", [host, "true"])
    assert options[options.index("-p") + 1] == str(ssh_server.port_of("worker-0"))
    assert "/pods/x/root/.ssh/config" in options


def test_pods_of_a_job_have_different_ports() -> None:
    assert len({ssh_server.port_of(f"train-worker-{n}") for n in range(8)}) == 8

"""With `--pod-network=nat` pods reach other networks, but neither this host nor link-local addresses."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.pods import skip_unless_possible
from volcano.nodes.shim.isolation.uplink import PROGRAMS, command

UNREACHABLE = ("error: No route to host", "error: timed out", "error: Network is unreachable")


def explored(runtime: str, directory: Path, *hidden: str) -> dict[str, Any]:
    """What a pod reaches in a network of namespaces; see tests.embedded.outside."""
    if os.geteuid() != 0:
        pytest.skip("only root can create the namespaces around the cluster")
    skip_unless_possible(runtime)
    done = subprocess.run(
        [sys.executable, "-m", "tests.embedded.outside", runtime, str(directory), *hidden],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_reaches_outside_only(found: dict[str, Any]) -> None:
    assert "no other network" not in found["limitations"]
    assert found["outside"] == found["allowed"] == "seen 203.0.113.1"  # the host's address
    assert found["name"] == "203.0.113.9"  # by the host's name server
    host, loopback, host_end = found["host"]
    assert loopback == "error: Connection refused"  # the pod's own
    # pasta gives the pod network the host's address, where nothing listens.
    assert host in (*UNREACHABLE, "error: Connection refused")
    for answer in (host_end, found["metadata"], found["unused pod address"], found["isolated"]):
        assert answer in UNREACHABLE


@pytest.mark.slow
def test_pods_of_netns_are_masqueraded_and_nothing_is_left_on_the_host(tmp_path: Path) -> None:
    found = explored("netns", tmp_path)
    assert_reaches_outside_only(found)
    assert len(found["links"]) == len(found["tables"]) == 1
    assert found["killed"] == {"tables": []}  # the kernel removes them with the shim, however it ends
    assert found["links after"] == found["tables after"] == []
    assert found["forwarding before"] == found["forwarding after"] == "0"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_pods_of_userns_use_a_program_of_the_user(tmp_path: Path, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    found = explored("userns", tmp_path, *(each for each in PROGRAMS if each != program))
    assert_reaches_outside_only(found)
    assert (found["links"], found["tables"]) == ([], [])
    assert found["forwarding after"] == "0"


@pytest.mark.slow
def test_without_a_program_pods_of_userns_reach_no_other_network_and_say_so(tmp_path: Path) -> None:
    found = explored("userns", tmp_path, *PROGRAMS)
    assert "no other network (neither pasta nor slirp4netns is installed)" in found["limitations"]
    assert found["outside"] in UNREACHABLE


@pytest.mark.parametrize("program", PROGRAMS)
def test_neither_program_leads_to_the_hosts_loopback_address(program: str) -> None:
    options = {"pasta": "--no-map-gw", "slirp4netns": "--disable-host-loopback"}
    assert options[program] in command(f"/usr/bin/{program}", "/proc/1/ns/net")

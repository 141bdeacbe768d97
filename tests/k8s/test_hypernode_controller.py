"""`vc-hypernode-controller-manager` on a real API server, with the chart's ServiceAccount and nothing else."""

from collections.abc import Iterator

import pytest

from tests.installer.helm import NAMESPACE
from tests.installer.installation import Installation
from tests.k8s.control_plane import build, cluster
from tests.k8s.plain import until
from tests.k8s.programs import ELECTION, free_port, programs_on
from tests.k8s.test_scenarios import SOON
from tests.k8s.test_topology import HYPER_NODES
from tools.installer.places import CHART

pytestmark = pytest.mark.k8s

ACCOUNT = "volcano-hypernode-controllers"
DISCOVERY = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      racks:
      - nodeLabel: topology.volcano.sh/rack
      - nodeLabel: kubernetes.io/hostname
- source: roce
  enabled: true
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The chart with the HyperNode controller alone, and four nodes in two racks."""
    if build.missing():
        pytest.skip(f"not built: {', '.join(build.missing())}")
    directory = tmp_path_factory.mktemp("standalone")
    running = cluster.start(directory / "control-plane", service_accounts=True)
    try:
        with programs_on(running, tmp_path_factory) as programs:
            installed = Installation(running, directory, programs)
            (directory / "discovery.txt").write_text(DISCOVERY)
            options = [f"--set=custom.{one}_enable=false" for one in ("scheduler", "controller", "admission")]
            options.append("--set=custom.hypernode_controller_mode=standalone")
            options.append(f"--set-file=custom.controller_config_override={directory}/discovery.txt")
            installed.helm.run(
                "install", "volcano", str(CHART), "-n", NAMESPACE, "--create-namespace", *options
            )
            programs.start("nodes", "--nodes", "4", "--topology", "rack=2")
            port = free_port()
            flags = ("--enable-healthz", f"--healthz-address=127.0.0.1:{port}", *ELECTION)
            programs.start("hypernode_controllers", *flags, kubeconfig=installed.kubeconfig(ACCOUNT))
            installed.health["hypernode_controllers"] = port
            until(lambda: installed.probe("hypernode_controllers", "/readyz"), SOON, programs.logs)
            yield installed
    finally:
        running.stop()


def test_it_leads_discovers_and_reports_with_its_own_rights(installation: Installation) -> None:
    programs = installation.programs

    def counts() -> list[tuple[str, int]]:
        found = programs.api.items(f"{HYPER_NODES}?labelSelector=volcano.sh/network-topology-source%3Dlabel")
        return sorted(
            (h["metadata"]["name"][:-6], (h.get("status") or {}).get("nodeCount", -1)) for h in found
        )

    until(lambda: counts() == [("hypernode-racks-tier1", 2)] * 2, SOON, programs.logs)
    assert programs.holder("vc-hypernode-controller-manager")

    def rejected() -> str:
        selector = "--field-selector=reason=DiscoveryConfigRejected"
        return installation.kubectl("get", "events", "-n", NAMESPACE, selector)

    until(lambda: "'roce' is unknown; choose from label, ufm" in rejected(), SOON, programs.logs)


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "allowed"),
    [
        ("get", "secrets", "default", True),
        ("list", "secrets", "default", False),
        ("watch", "configmaps", NAMESPACE, True),
        ("watch", "configmaps", "default", False),
        ("delete", "pods", "default", False),
    ],
)
def test_its_rights_are_those_it_needs(
    installation: Installation, verb: str, resource: str, namespace: str, allowed: bool
) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    answer = installation.kubectl("auth", "can-i", verb, resource, "-n", namespace, account, check=False)
    assert answer.strip() == ("yes" if allowed else "no")

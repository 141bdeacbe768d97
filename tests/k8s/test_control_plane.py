"""The harness itself: a real kube-apiserver serves requests."""

import subprocess

import pytest

from tests.k8s.control_plane.build import VERSION, program
from tests.k8s.control_plane.cluster import RealCluster

pytestmark = pytest.mark.k8s


def test_the_real_server_answers_kubectl(real_apiserver: RealCluster) -> None:
    shown = subprocess.run(
        [program("kubectl"), "--kubeconfig", real_apiserver.kubeconfig, "version", "-o", "yaml"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"gitVersion: v{VERSION}" in shown.stdout

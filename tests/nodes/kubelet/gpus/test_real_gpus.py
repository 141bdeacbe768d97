"""The GPUs of this machine, if it has any: read through NVML, and used by pods in every runtime."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from volcano.nodes.kubelet.gpus import driver
from volcano.nodes.kubelet.gpus.nvml import open_nvml
from volcano.nodes.kubelet.machine import parse_gpu_list

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.skipif(not driver.cards_in_proc(), reason="this machine has no NVIDIA GPU")


def test_nvml_the_driver_and_nvidia_smi_agree() -> None:
    reader = open_nvml()
    if reader is None:
        pytest.skip("nvidia-ml-py is not installed")
    cards = reader.cards()
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    assert {card.uuid for card in cards} == set(parse_gpu_list(listed))
    in_proc = {card.uuid: (card.minor, card.bus_id) for card in driver.cards_in_proc()}
    assert {card.uuid: (card.minor, card.bus_id) for card in cards} == in_proc
    assert [card.memory for card in driver.with_memory(driver.cards_in_proc())] == [
        card.memory for card in cards
    ]
    assert reader.problems() == {}
    assert all(load.memory_total > 1000 for load in reader.load())
    assert all(Path(path).exists() for path in driver.gpu_access(cards, [cards[0].uuid]).files)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", ["plain", "netns", "userns"])
def test_pods_use_their_own_gpus_and_no_others(runtime: str) -> None:
    command = [
        sys.executable,
        str(ROOT / "tools" / "verify_gpu.py"),
        "--json",
        "--no-torch",
        "--runtime",
        runtime,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = json.loads(done.stdout)["checks"]
    if all(check["ok"] is None for check in checks):
        pytest.skip(checks[0]["detail"])
    assert [check for check in checks if check["ok"] is False] == []
    assert done.returncode == 0

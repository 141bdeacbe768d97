"""PyTorch: DistributedDataParallel, torchrun and elastic torchrun, on every runtime of local nodes."""

import re

import pytest

from tests.embedded.program import Setting
from tests.frameworks.examples import completed, fails_without, log_lines, needs

pytestmark = pytest.mark.frameworks

DDP = "pytorch-ddp.yaml"
TORCHRUN = "torchrun-gang.yaml"
ELASTIC = "frameworks/pytorch/elastic.yaml"


@pytest.fixture(autouse=True)
def framework() -> None:
    needs("pytorch")


def test_ranks_train_the_same_weights_with_distributed_data_parallel(runtime: Setting) -> None:
    lines = log_lines(completed(DDP, setting=runtime), "rank .*")
    assert sorted(line.partition(":")[0] for line in lines) == [f"rank {n}" for n in range(4)]
    assert len({line.partition(":")[2] for line in lines}) == 1, "ranks have different losses"


def test_torchrun_starts_a_gang(runtime: Setting) -> None:
    output = completed(TORCHRUN, "--fake-gpus", "3", setting=runtime)
    assert sorted(re.findall(r"rank (\d) of 3 on [\w-]+: sum 6", output)) == ["0", "1", "2"]


def test_torchrun_fails_without_one_worker() -> None:
    assert "sum 6" not in fails_without("worker", TORCHRUN, "--fake-gpus", "3")


def test_elastic_training_survives_a_killed_worker(runtime: Setting) -> None:
    output = completed(ELASTIC, setting=runtime)
    assert sorted(re.findall(r"rank \d of 3 begins at step \d+", output)) == [
        f"rank {n} of 3 begins at step 0" for n in range(3)
    ]
    assert "1 failed, 2 succeeded" in output
    # The two others go on from a checkpoint, and learn the weights of the killed worker, too.
    assert sorted(re.findall(r"rank \d of 2 begins at step \d+", output)) == [
        f"rank {n} of 2 begins at step 20" for n in range(2)
    ]
    learned = re.findall(r"rank \d of 2 has learned .*", output)
    assert sorted(line.strip() for line in learned) == [
        f"rank {n} of 2 has learned [2, -3, 5, 1, -4, 3]" for n in range(2)
    ]

"""The numbers of the worked example in docs/concepts/queues.md are what the scheduler computes."""

import re
from pathlib import Path

import numpy as np
import pytest

from volcano.model.shares.division import weighted_shares

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "queues.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| .* \| ([\d.]+) \|$", PAGE, re.MULTILINE)
TOTAL = re.search(r"A cluster has (\d+) GPUs", PAGE)


def test_the_deserved_gpus_of_the_example_are_computed() -> None:
    assert TOTAL is not None
    assert [row[0] for row in ROWS] == ["research", "ops", "teaching"]
    weights = np.array([float(row[1]) for row in ROWS])
    requests = np.array([[float(row[2])] for row in ROWS])
    shares = weighted_shares(np.array([float(TOTAL[1])]), weights, np.zeros((3, 1)), requests)
    assert shares[:, 0].tolist() == pytest.approx([float(row[3]) for row in ROWS])

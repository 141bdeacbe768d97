"""Amounts and how they compare."""

import numpy as np
import pytest

from volcano.model import resources
from volcano.model.resources import ResourceIndex


def test_columns_are_cpu_memory_pods_and_then_as_they_come() -> None:
    index = ResourceIndex().extended(["nvidia.com/gpu", "cpu"]).extended(["a/b"])
    assert index.names == ("cpu", "memory", "pods", "nvidia.com/gpu", "a/b")


def test_an_index_that_knows_all_names_is_itself() -> None:
    index = ResourceIndex()
    assert index.extended(["cpu"]) is index


@pytest.mark.parametrize(
    ("name", "counted"),
    [("cpu", True), ("example.com/x", True), ("hugepages-2Mi", True), ("count/pods", False), ("gold", False)],
)
def test_which_names_are_scheduled_by(name: str, counted: bool) -> None:
    assert resources.counted(name) is counted


def test_units() -> None:
    assert resources.parse({"cpu": "1.5", "memory": "1Ki", "a/b": "2", "ephemeral-storage": "1"}) == {
        "cpu": 1500, "memory": 1024, "a/b": 2000, "ephemeral-storage": 1000,
    }  # fmt: skip


def test_a_vector_is_written_as_a_manifest_would() -> None:
    index = ResourceIndex().extended(["nvidia.com/gpu"])
    vector = np.array([1500.0, 2**31, 3, 2000])
    assert resources.manifest(index, vector) == {
        "cpu": "1500m",
        "memory": "2Gi",
        "pods": "3",
        "nvidia.com/gpu": "2",
    }


def test_fitting_has_a_tolerance_where_all_counts_and_none_where_only_the_asked_does() -> None:
    have = np.array([1000.0, 0, 0])
    assert resources.fits(np.array([1000.05, 0, 0]), have)
    assert not resources.fits(np.array([1000.2, 0, 0]), have)


def test_the_pod_itself_is_not_a_request() -> None:
    assert resources.empty(np.array([0.0, 0, 1]))
    assert not resources.empty(np.array([0.0, 1, 1]))


def test_share_of_nothing() -> None:
    assert resources.share(np.array([0.0, 1, 2]), np.array([0.0, 0, 4])).tolist() == [0, 1, 0.5]

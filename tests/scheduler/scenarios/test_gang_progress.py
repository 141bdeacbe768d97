"""Gangs finish one after the other; without gang scheduling, partly started jobs block each other for ever."""

import pytest

from tests.experiments import WITH_GANG, WITHOUT_GANG, Training, pairs_together


@pytest.mark.parametrize(("jobs", "makespan"), [(1, 3), (2, 6), (5, 15)])
def test_gangs_finish_one_after_the_other(jobs: int, makespan: int) -> None:
    assert Training(jobs, WITH_GANG).run() == makespan


def test_without_gang_one_job_alone_finishes() -> None:
    assert Training(1, WITHOUT_GANG).run() == 3


@pytest.mark.parametrize("jobs", [2, 5])
def test_without_gang_several_jobs_take_half_each_and_none_ever_finishes(jobs: int) -> None:
    training = Training(jobs, WITHOUT_GANG)
    assert training.run() is None
    assert training.finished == []


def test_task_topology_brings_workers_to_their_parameter_servers() -> None:
    assert {pairs_together(topology=True, seed=seed) for seed in range(5)} == {1.0}
    assert all(pairs_together(topology=False, seed=seed) < 0.5 for seed in range(5))

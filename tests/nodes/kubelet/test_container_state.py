"""Run state of containers."""

import pytest

from volcano.nodes.kubelet.container_state import (
    NEVER_RUN,
    Waiting,
    crashes_before,
    not_created,
    restart_delay,
    started,
    starting,
)


def test_the_waiting_reason_is_kept_while_creation_is_retried() -> None:
    waiting = Waiting("ErrImagePull", "no such image", retry_at=10.0)
    again = starting(not_created(NEVER_RUN, waiting))
    assert again.waiting == waiting
    assert started(again, 0, 11.0, hook=False).waiting is None


def test_the_first_restart_is_immediate_and_later_ones_back_off() -> None:
    delays = [restart_delay(crashes) for crashes in range(9)]
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("crashes", range(7))
def test_the_number_of_crashes_is_restored_from_a_saved_delay(crashes: int) -> None:
    assert crashes_before(restart_delay(crashes)) == crashes
    assert restart_delay(crashes_before(1000.0)) == 300

"""A container that could not be created says why until it is there."""

from volcano.nodes.kubelet.container_state import NEVER_RUN, Waiting, not_created, started, starting


def test_while_it_is_tried_again_a_container_still_says_why_it_is_not_there() -> None:
    waiting = Waiting("ErrImagePull", "no such image", retry_at=10.0)
    again = starting(not_created(NEVER_RUN, waiting))
    assert again.waiting == waiting
    assert started(again, 0, 11.0, hook=False).waiting is None

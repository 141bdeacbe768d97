"""Shares: siblings are compared with each other, queues by weight, users by the queue's annotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.model.queue import Queue
from volcano.model.user_shares import parse_shares
from volcano.scheduler.plugins.fairshare.tree import ShareTree, factor
from volcano.scheduler.plugins.fairshare.usage import Account


def queues(*given: Queue) -> dict[str, Queue]:
    return {"root": Queue("root"), **{queue.name: queue for queue in given}}


def test_factors_are_those_of_the_formula() -> None:
    assert factor(0.0, 0.5) == 1.0
    assert factor(0.5, 0.5) == 0.5
    assert factor(1.0, 0.5) == 0.25
    assert factor(0.1, 0.0) == 0.0
    assert factor(0.0, 0.0) == 1.0


def test_queues_are_compared_by_their_weights() -> None:
    tree = ShareTree(
        queues(Queue("a", weight=3), Queue("b", weight=1)), {Account("a", "x"): 30.0, Account("b", "y"): 10.0}
    )
    a, b = tree.queues["a"], tree.queues["b"]
    assert (a.normalised_share, a.effective_usage, a.factor) == (0.75, 0.75, 0.5)
    assert (b.normalised_share, b.effective_usage, b.factor) == (0.25, 0.25, 0.5)


def test_usage_of_a_queue_is_that_of_all_queues_below() -> None:
    tree = ShareTree(
        queues(Queue("org"), Queue("team", parent="org"), Queue("other")),
        {Account("team", "x"): 30.0, Account("other", "y"): 10.0},
    )
    assert tree.queues["org"].usage == 30
    assert tree.queues["team"].effective_usage == 1.0  # of its parent's
    assert tree.queues["root"].usage == 40


def test_queues_are_ordered_from_the_root() -> None:
    """A queue of an organisation that used little goes before one of an organisation that used much."""
    tree = ShareTree(
        queues(
            Queue("idle"), Queue("busy"), Queue("heavy", parent="idle"), Queue("light", parent="idle"),
            Queue("new", parent="busy"), Queue("old", parent="busy"),
        ),
        {Account("heavy", "x"): 10.0, Account("light", "x"): 1.0, Account("old", "x"): 90.0},
    )  # fmt: skip
    assert sorted(("heavy", "light", "new", "old"), key=tree.path) == ["light", "heavy", "new", "old"]


def test_users_have_equal_shares_unless_the_queue_gives_others() -> None:
    given = queues(Queue("a", annotations={"volcano.sh/user-shares": "alice=3"}))
    tree = ShareTree(given, {Account("a", "alice"): 30.0, Account("a", "bob"): 10.0})
    users = tree.users("a")
    assert [users[name].normalised_share for name in ("alice", "bob")] == [0.75, 0.25]
    assert [users[name].factor for name in ("alice", "bob")] == [0.5, 0.5]
    assert tree.user(Account("a", "carol")).factor == 1.0


def test_a_user_with_a_share_is_listed_before_the_first_job() -> None:
    tree = ShareTree(queues(Queue("a", annotations={"volcano.sh/user-shares": "alice=3"})), {})
    assert list(tree.users("a")) == ["alice"]


def test_users_of_a_queue_with_queues_below_are_siblings_of_those() -> None:
    tree = ShareTree(
        queues(Queue("org", weight=1), Queue("team", parent="org", weight=3)),
        {Account("org", "x"): 10.0, Account("team", "y"): 30.0},
    )
    assert tree.users("org")["x"].normalised_share == 0.25
    assert tree.queues["team"].normalised_share == 0.75


def test_queues_that_are_their_own_ancestors_do_not_hang() -> None:
    tree = ShareTree(queues(Queue("a", parent="b"), Queue("b", parent="a")), {Account("a", "x"): 1.0})
    assert tree.path("a") == ()


def test_an_invalid_annotation_gives_equal_shares() -> None:
    tree = ShareTree(
        queues(Queue("a", annotations={"volcano.sh/user-shares": "alice"})), {Account("a", "bob"): 1.0}
    )
    assert list(tree.users("a")) == ["bob"]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), st.floats(0, 1e12)), min_size=1)
)
def test_factors_are_between_0_and_1_and_shares_add_up(given: dict[str, tuple[int, float]]) -> None:
    tree = ShareTree(
        queues(*(Queue(name, weight=weight) for name, (weight, _) in given.items())),
        {Account(name, "x"): used for name, (_, used) in given.items()},
    )
    found = [tree.queues[name] for name in given]
    assert all(0 <= each.factor <= 1 for each in found)
    if any(weight for weight, _ in given.values()):
        assert sum(each.normalised_share for each in found) == pytest.approx(1)
    if any(used for _, used in given.values()):
        assert sum(each.effective_usage for each in found) == pytest.approx(1)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_less_usage_never_goes_later(one: float, other: float) -> None:
    tree = ShareTree(
        queues(Queue("a")), {Account("a", "x"): min(one, other), Account("a", "y"): max(one, other)}
    )
    assert tree.users("a")["x"].factor >= tree.users("a")["y"].factor


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        pytest.param("", {}, id="none"),
        pytest.param(" alice = 3 , bob=1.5,", {"alice": 3.0, "bob": 1.5}, id="spaces and a comma at the end"),
        pytest.param("system:serviceaccount:a:b=2", {"system:serviceaccount:a:b": 2.0}, id="service account"),
    ],
)
def test_shares_are_read(text: str, shares: dict[str, float]) -> None:
    assert parse_shares(text) == shares


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("alice", "'alice' is no user with a share", id="no number"),
        pytest.param("alice=many", "'alice=many' is no user", id="not a number"),
        pytest.param("alice=-1", "numbers of at least 0", id="negative"),
        pytest.param("alice=nan", "numbers of at least 0", id="not a number in arithmetic"),
        pytest.param("=1", "'=1' is no user", id="no user"),
        pytest.param("alice=1,alice=2", "user 'alice' has two shares", id="twice"),
    ],
)
def test_invalid_shares_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_shares(text)
    assert "alice=3,bob=1" in str(caught.value)

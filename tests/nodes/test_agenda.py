"""Things come up at their moment, once, in order."""

import math

from hypothesis import given
from hypothesis import strategies as st

from volcano.nodes.agenda import Agenda


def test_an_item_comes_up_at_the_earliest_moment_it_was_given() -> None:
    agenda = Agenda()
    agenda.add(5.0, "a")
    agenda.add(3.0, "a")
    agenda.add(4.0, "a")
    assert agenda.next() == 3.0
    assert agenda.due(2.9) == []
    assert agenda.due(10.0) == ["a"]
    assert agenda.due(10.0) == []
    assert agenda.next() is None


def test_never_is_never_and_what_is_dropped_does_not_come_up() -> None:
    agenda = Agenda()
    agenda.add(math.inf, "never")
    agenda.add(1.0, "dropped")
    agenda.add(2.0, "kept")
    agenda.drop("dropped")
    assert agenda.next() == 2.0
    assert agenda.due(math.inf) == ["kept"]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=30))
def test_everything_comes_up_once_and_in_order(entries: list[tuple[int, int]]) -> None:
    agenda = Agenda()
    earliest: dict[int, float] = {}
    for moment, item in entries:
        agenda.add(float(moment), item)
        earliest[item] = min(earliest.get(item, math.inf), moment)
    assert agenda.next() == min(earliest.values(), default=None)
    due = agenda.due(20.0)
    assert sorted(map(str, due)) == sorted(map(str, earliest))
    moments = [earliest[item] for item in due if isinstance(item, int)]
    assert moments == sorted(moments)

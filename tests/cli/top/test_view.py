"""Keys, and what they do to what is looked at."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcano.cli.top.keyboard import keys
from volcano.cli.top.view import JOBS, NODES, PODS, QUEUES, Place, Request, View, press, window
from volcano.kube.api.manifest import Key

# keys


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b[A\x1b[B", ["up", "down"]), (b"\x1bOC", ["right"]), (b"\x1b", ["escape"]), (b"q", ["q"]),
        (b"\r", ["enter"]), (b"\x7f", ["backspace"]), (b"a\xc3\xa9", ["a", "é"]), (b"\x1b[99;5u", []),
        (b"\x1b[5~", ["pageup"]), (b"\x01", []), (b"\x1b[", []), (b"\x1bq", ["escape", "q"]),
    ],
)  # fmt: skip
def test_bytes_are_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names


@given(st.binary(max_size=20))
def test_any_bytes_are_some_keys(data: bytes) -> None:
    assert all(isinstance(key, str) and key for key in keys(data))


def after(view: View, *pressed: str, rows: Sequence[str] = ("a", "b", "c")) -> View:
    for key in pressed:
        view = press(view, key, rows, page=2)
    return view


@pytest.mark.parametrize(
    ("pressed", "selected"),
    [
        (("down",), "b"), (("down", "down", "down"), "c"), (("up",), "a"), (("end",), "c"), (("end", "home"), "a"),
        (("pagedown",), "c"), (("j", "k"), "a"), (("G",), "c"), (("x",), "a"),
    ],
)  # fmt: skip
def test_keys_move_the_choice(pressed: tuple[str, ...], selected: str) -> None:
    assert after(View(), *pressed).place.selected == selected


def test_enter_opens_and_escape_goes_back_to_the_same_row() -> None:
    opened = after(View(), "down", "enter")
    assert (opened.place.level, opened.place.queue) == (JOBS, "b")
    deeper = after(opened, "enter", rows=["team/train"])
    assert (deeper.place.level, deeper.place.job) == (PODS, Key("team", "train"))
    assert after(deeper, "enter").place == deeper.place
    back = after(deeper, "escape", "left")
    assert (back.place.level, back.place.selected) == (QUEUES, "b")
    assert after(back, "escape") == back


def test_s_goes_through_the_orders() -> None:
    orders = [after(View(), *["s"] * times).place.order for times in range(5)]
    assert orders == ["tree", "share", "waiting", "name", "tree"]


def test_a_filter_is_typed_kept_and_taken_back() -> None:
    typing = after(View(), "/", "q", "s", "x", "backspace")
    assert (typing.typing, typing.place.pattern, typing.over) == (True, "qs", False)
    kept = after(typing, "enter")
    assert (kept.typing, kept.place.pattern) == (False, "qs")
    assert after(kept, "escape").place.pattern == ""
    assert after(typing, "escape").place.pattern == ""


@pytest.mark.parametrize("key", ["q", "interrupt"])
def test_q_and_control_c_quit(key: str) -> None:
    assert after(View(), key).over


def test_control_c_quits_while_typing() -> None:
    assert after(View(), "/", "interrupt").over


@given(st.integers(0, 50), st.integers(1, 51), st.integers(0, 30))
def test_the_chosen_row_is_always_on_the_screen(chosen: int, count: int, height: int) -> None:
    chosen = min(chosen, count - 1)
    visible = window(chosen, count, height)
    assert len(visible) == min(height, count)
    assert height == 0 or chosen in visible


# help, nodes and actions


def test_any_key_closes_the_help() -> None:
    helping = after(View(), "?")
    assert helping.helping
    assert after(helping, "q") == View()


def test_n_opens_the_nodes_and_closes_them_again() -> None:
    opened = after(View(), "down", "n")
    assert opened.place.level == NODES
    assert after(opened, "n").place.selected == "b"
    assert after(opened, "escape").place.level == QUEUES


@pytest.mark.parametrize(("key", "action"), [("d", "delete"), ("p", "suspend")])
def test_actions_on_a_job_ask_first(key: str, action: str) -> None:
    jobs = View((Place(), Place(level=JOBS, queue="b")))
    asking = after(jobs, key, rows=["team/train"])
    assert asking.asking == Request(action, Key("team", "train"))
    assert asking.requested is None
    assert after(asking, "y").requested == Request(action, Key("team", "train"))
    for other in ("n", "enter", "escape", "q", key):
        declined = after(asking, other)
        assert (declined.asking, declined.requested, declined.over) == (None, None, False)


def test_a_job_is_resumed_without_a_question() -> None:
    jobs = View((Place(), Place(level=JOBS, queue="b")))
    assert after(jobs, "r", rows=["team/train"]).requested == Request("resume", Key("team", "train"))


@pytest.mark.parametrize("level", [QUEUES, PODS, NODES])
@pytest.mark.parametrize("key", ["d", "p", "r"])
def test_there_are_actions_on_jobs_only(level: str, key: str) -> None:
    view = after(View((Place(level=level),)), key)
    assert (view.asking, view.requested) == (None, None)

"""Fields that may be missing."""

from volcano.kube.api.fields import at


def test_looking_into_something_else_than_an_object_finds_nothing() -> None:
    assert at({"a": [1]}, "a", "b") is None
    assert at({"a": {"b": None}}, "a", "b", default="x") == "x"
    assert at({"a": {"b": 0}}, "a", "b", default="x") == 0

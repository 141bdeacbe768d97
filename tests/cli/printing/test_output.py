"""Tables, templates and colours, without a cluster."""

import io

import pytest

from volcano.cli.errors import UsageError, exit_code, explain, near
from volcano.cli.printing.colours import paint, style_of
from volcano.cli.printing.output import as_yaml, render, render_all
from volcano.cli.printing.tables import Column, Layout, fixed, longest, roomy
from volcano.cli.printing.template import Template
from volcano.cli.quantities import parse_resources, resources_text
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden, Invalid, NotFound, Unavailable
from volcano.kube.api.kinds import JOB
from volcano.services.connection import Connection
from volcano.views.times import age, moment_text, span

LIST = {"items": [{"name": "a", "n": 1, "on": True}, {"name": "b", "n": 2, "tags": ["x", "y"]}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{.items[*].name}", "a b", id="all"),
        pytest.param(".items[0].name", "a", id="without-braces"),
        pytest.param("{.items[1].tags}", '["x","y"]', id="structure"),
        pytest.param("{.items[0].on}", "true", id="boolean"),
        pytest.param("first: {.items[0].name}!", "first: a!", id="text"),
        pytest.param('{range .items[*]}{.name}{"\\t"}{.n}{"\\n"}{end}', "a\t1\nb\t2\n", id="range"),
        pytest.param("{range .items[*]}{.name}{','}{end}", "a,b,", id="single-quotes"),
        pytest.param('{range .items[*]}{range .tags[*]}<{@}>{end}{";"}{end}', ";<x><y>;", id="nested"),
        pytest.param('{.items[?(@.name=="b")].n}', "2", id="filter"),
        pytest.param("{.absent}", "", id="absent"),
        pytest.param('{"a}b"}', "a}b", id="brace-in-quotes"),
    ],
)
def test_templates_say_what_kubectls_say(text: str, expected: str) -> None:
    assert Template(text).render(LIST) == expected


@pytest.mark.parametrize("text", ["{.a", "{range .a}", "{.a}{end}", '{"a}', "{.a[}"])
def test_a_template_that_is_not_understood_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"^-o: "):
        render(f"jsonpath={text}", {})


def test_names_carry_their_group() -> None:
    assert render_all("name", JOB, [{"metadata": {"name": "a"}}]) == "job.batch.volcano.sh/a"


def test_yaml_is_in_blocks_and_sorted() -> None:
    assert as_yaml({"b": [1, {"c": "x"}], "a": "ü"}) == "a: ü\nb:\n- 1\n- c: x"


COLUMNS = (
    Column("Name", lambda row: row[0], longest(3)),
    Column("Phase", lambda row: row[1], fixed(8), coloured=True),
    Column("Age", lambda row: row[2], roomy),
)
ROWS = [("a", "Running", "5s"), ("a-rather-long-name-of-a-job", "Completed", "3d")]


def lines(*, terminal: bool, colour: bool = False, room: int = 80) -> list[str]:
    layout = Layout(COLUMNS, ROWS, terminal=terminal, colour=colour, room=room)
    return [layout.header(), *map(layout.row, ROWS)]


def test_in_a_file_columns_have_their_own_widths_and_never_touch() -> None:
    assert lines(terminal=False) == [
        f"{'Name':30}{'Phase':8}{'Age':10}",
        f"{'a':30}{'Running':8}{'5s':10}",
        f"{'a-rather-long-name-of-a-job':30}Completed {'3d':10}",
    ]


def test_on_a_terminal_columns_are_as_wide_as_needed() -> None:
    assert lines(terminal=True) == [
        "Name                         Phase      Age",
        "a                            Running    5s",
        "a-rather-long-name-of-a-job  Completed  3d",
    ]


@pytest.mark.parametrize("room", [40, 30, 24])
def test_on_a_narrow_terminal_the_widest_column_gives_way(room: int) -> None:
    drawn = lines(terminal=True, room=room)
    assert max(map(len, drawn)) <= room
    assert drawn[2].startswith("a-rather"[: room // 5])
    assert "…" in drawn[2]


def test_headers_are_never_truncated() -> None:
    columns = (Column("Name", lambda row: row[0]), Column("Succeeded", lambda row: row[1]))
    layout = Layout(columns, [("a-rather-long-name", "1")], terminal=True, colour=False, room=20)
    assert [layout.header(), layout.row(("a-rather-long-name", "1"))] == [
        "Name       Succeeded",
        "a-rather…  1",
    ]


def test_sentences_are_truncated_before_columns_are_dropped() -> None:
    columns = (
        Column("Name", lambda row: row[0]),
        Column("Age", lambda row: "5s", spare=1),
        Column("Reason", lambda row: row[1], sentence=True),
    )
    row = ("train", "0/8 nodes are available: 8 Insufficient nvidia.com/gpu")
    assert Layout(columns, [row], terminal=True, colour=False, room=50).row(row) == (
        "train  5s   0/8 nodes are available: 8 Insufficie…"
    )
    assert Layout(columns, [row], terminal=True, colour=False, room=35).row(row) == (
        "train  0/8 nodes are available: 8 …"
    )


def test_a_sentence_column_without_values_is_left_out() -> None:
    columns = (Column("Name", lambda row: row), Column("Reason", lambda row: "", sentence=True))
    assert Layout(columns, ["train"], terminal=True, colour=False, room=50).header() == "Name"


def test_spare_columns_go_before_values_are_cut() -> None:
    columns = (
        Column("Name", lambda row: row[0]),
        Column("Day", lambda row: "2026-01-01", spare=2),
        Column("Type", lambda row: "Batch", spare=1),
    )
    shown = {
        room: Layout(columns, [("a-name",)], terminal=True, colour=False, room=room).row(("a-name",))
        for room in (30, 20, 10, 4)
    }
    assert shown == {30: "a-name  2026-01-01  Batch", 20: "a-name  Batch", 10: "a-name", 4: "a-name"}
    assert "2026-01-01" in Layout(columns, [("x" * 99,)], terminal=False, colour=False, room=10).row(("x",))


def test_what_comes_later_may_be_longer() -> None:
    columns = (Column("Name", lambda row: row[0]), Column("Phase", lambda row: row[1]))
    layout = Layout(columns, [], terminal=True, colour=False, room=80)
    assert layout.row(("a-long-name", "Running")) == "a-long-name  Running"


def test_phases_are_coloured_only_when_asked() -> None:
    assert "\x1b" not in "".join(lines(terminal=True))
    header, running, _ = lines(terminal=True, colour=True)
    assert header.startswith("\x1b[1m")
    assert "\x1b[32mRunning  \x1b[0m" in running


def test_styles_end_where_they_should() -> None:
    assert paint("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert (style_of("Failed"), style_of("Pending"), style_of("my-job")) == ("red", "yellow", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdout", "environment", "colour"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="no-color"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="dumb"),
        pytest.param(io.StringIO(), {}, False, id="file"),
    ],
)
def test_colours_are_for_terminals_only(
    stdout: io.StringIO, environment: dict[str, str], colour: bool
) -> None:
    session = Session(Connection(environment=environment), stdout=stdout)
    assert session.colour is colour
    assert session.paint("x", "red") == ("\x1b[31mx\x1b[0m" if colour else "x")


def test_resources_are_written_as_they_are_read() -> None:
    assert parse_resources("cpu=1000m, memory=100Mi", "-R") == {"cpu": "1000m", "memory": "100Mi"}
    assert parse_resources("", "-R") == {}
    assert resources_text({"memory": "1Gi", "cpu": 2}) == "cpu=2,memory=1Gi"
    assert resources_text(None) == "<none>"


@pytest.mark.parametrize("text", ["cpu", "cpu=", "=1", "cpu=1=2", "cpu=one"])
def test_malformed_resources_are_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="-R: "):
        parse_resources(text, "-R")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "5s"),
        (200, "3m20s"),
        (7500, "125m"),
        (4 * 3600 + 300, "4h5m"),
        (76 * 3600, "3d4h"),
        (-5, "<invalid>"),
    ],
)
def test_spans_are_coarser_the_longer_they_are(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_moments() -> None:
    assert moment_text("2026-01-02T03:04:05Z") == "2026-01-02 03:04:05 +0000 UTC"
    assert age("1970-01-01T00:00:10Z", 30.0) == "20s"
    assert age(None, 30.0) == "<unknown>"


def test_only_a_near_name_is_suggested() -> None:
    assert near("trainng", ["training", "other"]) == "; did you mean 'training'?"
    assert near("x", ["training"]) == ""


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    columns = (Column("Name", lambda row: row),)
    layout = Layout(columns, ["a\x1b[2Jb\nc"], terminal=True, colour=False, room=80)
    assert layout.row("a\x1b[2Jb\nc") == "a [2Jb c"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(NotFound("gone", name="x"), 3, id="object"),
        pytest.param(NotFound("404 page not found"), 4, id="kind"),
        pytest.param(Forbidden("no"), 4, id="rights"),
        pytest.param(Unavailable("silence"), 4, id="server"),
        pytest.param(Invalid("wrong"), 1, id="refused"),
        pytest.param(FileNotFoundError(2, "No such file", "x.yaml"), 1, id="file"),
        pytest.param(ExceptionGroup("several", [Forbidden("no")]), 4, id="group"),
        pytest.param(ZeroDivisionError("oh"), 1, id="bug"),
    ],
)
def test_every_failure_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(explain(error)) == code

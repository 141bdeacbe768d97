"""Navigation state of `vcctl top`: a pure function of keys."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from volcano.kube.api.manifest import Key
from volcano.services.jobs import DELETE, RESUME, SUSPEND

QUEUES, JOBS, PODS, NODES = "queues", "jobs", "pods", "nodes"
BELOW = {QUEUES: JOBS, JOBS: PODS}
# Sort orders that `s` cycles through, per level.
SORTS = {
    QUEUES: ("tree", "share", "waiting", "name"),
    JOBS: ("name", "share", "phase", "age"),
    PODS: ("name", "node", "status", "age"),
    NODES: ("name", "used", "status", "pods"),
}
STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
BACK = ("escape", "left", "backspace", "h")
OPEN = ("enter", "right", "l")
HELP, NODES_KEY = "?", "n"
# Actions on the selected job, by key.
ACTIONS = {"p": SUSPEND, "r": RESUME, "d": DELETE}
CONFIRMED = (SUSPEND, DELETE)
NOWHERE = Key("", "")


@dataclass(frozen=True, slots=True)
class Place:
    """One screen: level, parent and selection."""

    level: str = QUEUES
    queue: str = ""
    job: Key = NOWHERE
    sort: int = 0
    pattern: str = ""
    selected: str = ""  # identity of the selected row; empty for the first row

    @property
    def order(self) -> str:
        return SORTS[self.level][self.sort % len(SORTS[self.level])]


@dataclass(frozen=True, slots=True)
class Request:
    """An action on a job that the user has chosen."""

    action: str
    job: Key


@dataclass(frozen=True, slots=True)
class View:
    """Stack of open screens, with the help or a question above them."""

    places: tuple[Place, ...] = (Place(),)
    typing: bool = False
    over: bool = False
    helping: bool = False
    asking: Request | None = None  # waits for confirmation
    requested: Request | None = None  # to be executed

    @property
    def place(self) -> Place:
        return self.places[-1]

    def at(self, place: Place) -> "View":
        """Same view with its top screen changed."""
        return replace(self, places=(*self.places[:-1], place))


def press(view: View, key: str, rows: Sequence[str], page: int = 10) -> View:
    """View after a key; `rows` are the identities shown, `page` is the number of visible rows."""
    if key == "interrupt":
        return replace(view, over=True)
    if view.typing:
        return _type(view, key)
    if view.helping:
        return replace(view, helping=False)
    if view.asking is not None:
        return replace(view, asking=None, requested=view.asking if key in ("y", "Y") else None)
    place = view.place
    if key == HELP:
        return replace(view, helping=True)
    if key == NODES_KEY:
        return _back(view.at(replace(place, pattern=""))) if place.level == NODES else _push_nodes(view)
    if key in ACTIONS and place.level == JOBS and rows:
        return _act(view, ACTIONS[key], rows)
    if key == "q":
        return replace(view, over=True)
    if key == "s":
        return view.at(replace(place, sort=place.sort + 1))
    if key == "/":
        return replace(view.at(replace(place, pattern="")), typing=True)
    if key in BACK:
        return _back(view)
    if key in OPEN:
        return _open(view, rows)
    return view.at(replace(place, selected=_moved(place.selected, key, rows, page)))


def position(selected: str, rows: Sequence[str]) -> int:
    """Position of the selected row; 0 if it is gone."""
    return rows.index(selected) if selected in rows else 0


def window(chosen: int, count: int, height: int) -> range:
    """Rows that fit the screen, including the selected one."""
    first = min(max(chosen - height // 2, 0), max(count - height, 0))
    return range(first, min(first + max(height, 0), count))


def _type(view: View, key: str) -> View:
    place = view.place
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view.at(replace(place, pattern="")), typing=False)
        case "backspace":
            return view.at(replace(place, pattern=place.pattern[:-1]))
        case _ if len(key) == 1 and key.isprintable():
            return view.at(replace(place, pattern=place.pattern + key))
    return view


def _back(view: View) -> View:
    """One screen back; a filter is cleared first."""
    if view.place.pattern:
        return view.at(replace(view.place, pattern=""))
    return replace(view, places=view.places[:-1]) if len(view.places) > 1 else view


def _push_nodes(view: View) -> View:
    return replace(view, places=(*view.places, Place(level=NODES)))


def _act(view: View, action: str, rows: Sequence[str]) -> View:
    """View that asks for confirmation of an action on the selected job, or requests it at once."""
    chosen = rows[position(view.place.selected, rows)]
    request = Request(action, Key(*chosen.split("/", 1)))
    return replace(view, asking=request) if action in CONFIRMED else replace(view, requested=request)


def _open(view: View, rows: Sequence[str]) -> View:
    place = view.place
    if place.level not in BELOW or not rows:
        return view
    chosen = rows[position(place.selected, rows)]
    opened = Place(level=BELOW[place.level], queue=place.queue or chosen)
    if place.level == JOBS:
        opened = replace(opened, job=Key(*chosen.split("/", 1)))
    remembered = view.at(replace(place, selected=chosen))
    return replace(remembered, places=(*remembered.places, opened))


def _moved(selected: str, key: str, rows: Sequence[str], page: int) -> str:
    if not rows:
        return selected
    at = position(selected, rows)
    last = len(rows) - 1
    targets = {"home": 0, "end": last, "pageup": at - page, "pagedown": at + page, "g": 0, "G": last}
    if key in STEPS:
        at += STEPS[key]
    else:
        at = targets.get(key, at)
    return rows[min(max(at, 0), last)]

"""Completion candidates of a command line, from the parsers and from a lookup of live names."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcano.cli.parsing import Parser

FILES = "files"
PRESETS = ("default", "preempt", "reservation")  # scheduler configurations of the package
# Kind of names a flag takes, by the parser's destination. A tuple lists the values themselves.
VALUES: Mapping[str, str | tuple[str, ...]] = {
    "queue": "queues",
    "parent": "queues",
    "namespace": "namespaces",
    "context": "contexts",
    "cluster": "clusters",
    "user": "users",
    "kubeconfig": FILES,
    "filename": FILES,
    "file": FILES,
    "job": "jobs",
    "task": "tasks",
    "container": "containers",
    "priority_class": "priorityclasses",
    "output": ("json", "yaml", "wide", "name", "jsonpath="),
    "format": ("yaml", "json"),
    "plugin": ("env", "mpi", "pytorch", "ssh", "svc", "tensorflow"),
    "goal": ("Completed", "Running", "Failed", "Aborted", "Terminated", "Pending", "Deleted"),
    "state": ("Open", "Closed"),
    "action": ("open", "close", "update"),
    "shell": ("bash", "zsh", "fish"),
    # of `volcano`
    "cluster_name": "local-clusters",
    "example": "examples",
    "framework": "frameworks",
    "frameworks": "frameworks",
    "preset": PRESETS,
    "from_running": "jobs",
    **dict.fromkeys(("files", "data_dir", "salvage", "admission_conf", "audit_log", "snapshot"), FILES),
}
# Kind of names a command takes, by command group or program.
NAMES = {
    "job": "jobs", "queue": "queues", "podgroup": "podgroups", "jobflow": "jobflows", "jobtemplate": "jobtemplates",
    "vjobs": "jobs", "vqueues": "queues", "vcancel": "jobs", "vsuspend": "jobs", "vresume": "jobs",
}  # fmt: skip
NAMING = ("position", "name", "short_n")
NEW = ("run", "create")  # commands that take a new name


@dataclass(frozen=True, slots=True)
class Candidate:
    """One word that may come next."""

    value: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class NameRequest:
    """Request for names of one kind, with the command line so far."""

    sort: str
    said: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Candidate words, and whether file names are candidates too."""

    candidates: tuple[Candidate, ...] = ()
    files: bool = False


@dataclass(slots=True)
class _Walk:
    """Parser state reached by the words so far."""

    parser: Parser
    path: list[str] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    pending: argparse.Action | None = None
    positions: int = 0
    raw: bool = False  # after `--`
    lost: bool = False  # after a word that is not a command


def complete(
    parser: Parser,
    words: Sequence[str],
    names: Callable[[NameRequest], Iterable[str]],
    program: str = "vcctl",
) -> Answer:
    """Returns candidates for the last word, which may be empty. `names` looks up names that only the cluster
    has."""
    *before, current = words or [""]
    walk = _walked(parser, before)
    if walk.lost:
        return Answer()
    if walk.raw:
        return Answer(files=True)
    if walk.pending is not None:
        return _values(walk, walk.pending, current, names, program)
    flag, equals, begun = current.partition("=")
    if current.startswith("-") and equals:
        action = walk.parser._option_string_actions.get(flag)
        found = _values(walk, action, begun, names, program) if action is not None else Answer()
        return Answer(
            tuple(Candidate(f"{flag}={each.value}", each.about) for each in found.candidates), found.files
        )
    if current.startswith("-"):
        return Answer(tuple(each for each in _flags(walk.parser) if each.value.startswith(current)))
    if branches := _branches(walk.parser):
        return Answer(tuple(each for each in branches if each.value.startswith(current)))
    positionals = [action for action in walk.parser._actions if not action.option_strings]
    if not positionals:
        return Answer()
    action = positionals[min(walk.positions, len(positionals) - 1)]
    if walk.positions >= len(positionals) and action.nargs not in ("*", "+"):
        return Answer()
    return _values(walk, action, current, names, program)


def _walked(parser: Parser, words: Sequence[str]) -> _Walk:
    parser.prepare()
    walk = _Walk(parser)
    for word in words:
        if word == "--":
            walk.raw = True
        elif walk.raw:
            continue
        elif walk.pending is not None:
            walk.said[walk.pending.dest], walk.pending = word, None
        elif word.startswith("-") and len(word) > 1:
            flag, equals, value = word.partition("=")
            action = walk.parser._option_string_actions.get(flag)
            if action is not None and equals:
                walk.said[action.dest] = value
            elif action is not None and action.nargs != 0:
                walk.pending = action
        elif branches := _subparsers(walk.parser):
            if word not in branches:
                walk.lost = True
                return walk
            walk.parser = branches[word]
            walk.parser.prepare()
            walk.path.append(word)
        else:
            walk.positions += 1
            walk.said.setdefault("position", word)
    return walk


def _subparsers(parser: Parser) -> dict[str, Parser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _branches(parser: Parser) -> list[Candidate]:
    """Commands below a parser, without hidden ones."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return [Candidate(str(each.dest), str(each.help or "")) for each in action._choices_actions]
    return []


def _flags(parser: Parser) -> list[Candidate]:
    """Flags of a command, in their long spelling only."""
    found = []
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS:
            longest = max(action.option_strings, key=len)
            found.append(Candidate(longest, (action.help or "").replace("%%", "%")))
    return found


def _values(
    walk: _Walk,
    action: argparse.Action,
    begun: str,
    names: Callable[[NameRequest], Iterable[str]],
    program: str,
) -> Answer:
    found: list[str] = []
    files = False
    for sort in _sorts(walk, action, program):
        if isinstance(sort, tuple):
            found += sort
        elif sort == FILES:
            files = True
        else:
            found += sorted(names(NameRequest(sort, walk.said)))
    kept = dict.fromkeys(value for value in found if value.startswith(begun))
    return Answer(tuple(Candidate(value) for value in kept), files)


def _sorts(walk: _Walk, action: argparse.Action, program: str) -> list[str | tuple[str, ...]]:
    """Kinds of values an action takes."""
    if action.choices is not None:
        return [tuple(str(choice) for choice in action.choices)]
    home = walk.path[0] if walk.path else program
    if action.dest in NAMING and home in NAMES and not (walk.path and walk.path[-1] in NEW):
        # `-n` is the namespace if a name is given, otherwise it may be the name.
        named = walk.said.get("position") or walk.said.get("name")
        nameable = any(other.dest == "position" for other in walk.parser._actions)
        if action.dest == "short_n":
            return [NAMES[home], "namespaces"] if nameable and not named else ["namespaces"]
        return [NAMES[home]]
    if action.dest == "short_n":
        return ["namespaces"]
    if action.dest == "scheduler_conf" or (
        walk.path in (["config", "validate"], ["config", "plan"]) and action.dest == "file"
    ):
        return [PRESETS, FILES]
    if action.dest in VALUES:
        return [VALUES[action.dest]]
    return [FILES] if action.dest == "words" else []


def encode(answer: Answer) -> str:
    """Encodes candidates as shells and kubectl read them: a line per word, help after a tab, a directive at
    the end."""
    lines = [
        f"{each.value}\t{_one_line(each.about)}" if each.about else each.value for each in answer.candidates
    ]
    return "\n".join([*lines, ":0" if answer.files else ":4"])


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())

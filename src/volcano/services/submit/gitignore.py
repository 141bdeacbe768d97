"""Files of a directory that `.gitignore` files do not exclude, with git's rules."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Never listed, whatever .gitignore says: what others or the program itself can recreate, and git's own files.
ALWAYS_IGNORED = frozenset(
    (".git", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache")
)
FILE = ".gitignore"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a .gitignore file: matches paths relative to that file's directory."""

    pattern: re.Pattern[str]
    ignores: bool  # False for lines that begin with `!`
    only_directories: bool


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one .gitignore file; `directory` is where it is located."""

    directory: Path
    rules: tuple[Rule, ...]


def listed_files(directory: Path) -> Iterator[Path]:
    """Files and symbolic links that are not ignored, sorted; rules of the repository above apply, too."""
    yield from _walk(directory, _rules_above(directory))


def parse_rules(text: str) -> tuple[Rule, ...]:
    return tuple(rule for line in text.splitlines() if (rule := _rule(line)) is not None)


def _walk(directory: Path, above: Sequence[RuleSet]) -> Iterator[Path]:
    found = _read(directory)
    rule_sets = [*above, found] if found.rules else list(above)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name in ALWAYS_IGNORED or _ignored(path, rule_sets, is_directory=is_directory):
            continue
        if is_directory:
            if not (path / "pyvenv.cfg").exists():  # a virtual environment works only where it is
                yield from _walk(path, rule_sets)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path


def _ignored(path: Path, rule_sets: Sequence[RuleSet], *, is_directory: bool) -> bool:
    """By the last matching rule; deeper files override higher ones."""
    for rule_set in reversed(rule_sets):
        relative = path.relative_to(rule_set.directory).as_posix()
        for rule in reversed(rule_set.rules):
            if (is_directory or not rule.only_directories) and rule.pattern.fullmatch(relative):
                return rule.ignores
    return False


def _rules_above(directory: Path) -> list[RuleSet]:
    """Rules of the directories from the repository's root to above `directory`; none outside of a repository."""
    for count, above in enumerate(directory.parents):
        if (directory / ".git").exists():
            return []
        if (above / ".git").exists():
            return [
                rules for each in reversed(directory.parents[: count + 1]) if (rules := _read(each)).rules
            ]
    return []


def _read(directory: Path) -> RuleSet:
    try:
        text = (directory / FILE).read_text(errors="surrogateescape")
    except OSError:
        text = ""
    return RuleSet(directory, parse_rules(text))


def _rule(line: str) -> Rule | None:
    text = line.rstrip("\r")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    only_directories = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        pattern = re.compile(_expression(text if anchored else f"**/{text}"), re.DOTALL)
    except re.error:
        return None  # git matches nothing with a malformed pattern
    return Rule(pattern, ignores, only_directories)


def _expression(glob: str) -> str:
    """The regular expression of a pattern with *, **, ?, [...] and escapes."""
    result, position = "", 0
    while position < len(glob):
        rest = glob[position:]
        if rest.startswith("**/") and (position == 0 or glob[position - 1] == "/"):
            result, position = result + "(?:.*/)?", position + 3
        elif rest == "**" and position > 0 and glob[position - 1] == "/":
            result, position = result + ".+", position + 2
        elif rest[0] == "*":
            result, position = result + "[^/]*", position + len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            result, position = result + "[^/]", position + 1
        elif rest[0] == "[" and (found := re.match(r"\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]", rest, re.DOTALL)):
            result += f"(?!/)[{'^' if found[1] else ''}{_members(found[2])}]"
            position += found.end()
        elif rest[0] == "\\" and len(rest) > 1:
            result, position = result + re.escape(rest[1]), position + 2
        else:
            result, position = result + re.escape(rest[0]), position + 1
    return result


def _members(text: str) -> str:
    """Members of a bracket expression; a bracket among them is literal."""
    first = r"\]" if text.startswith("]") else ""
    rest = text.removeprefix("]") if first else text
    return first + re.sub(r"(?<!\\)\[", r"\\[", rest)

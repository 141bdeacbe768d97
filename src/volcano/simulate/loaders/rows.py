"""Rows of delimited text files, with the file and line in every error."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from volcano.simulate.workload import TraceError

TIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")
ABSENT = frozenset(("", "None", "nan", "NaN", "NULL", "Unknown", "N/A"))


@dataclass(frozen=True, slots=True)
class Row:
    """One row: values by column, and where it is."""

    path: Path
    line: int
    values: dict[str, str]

    def text(self, column: str, default: str = "") -> str:
        return (self.values.get(column) or default).strip()

    def has(self, column: str) -> bool:
        return self.text(column) not in ABSENT

    def number(self, column: str, default: float | None = None) -> float:
        """A number that is not negative; `default` where there is none."""
        text = self.text(column)
        if text in ABSENT and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            self.fail(f"{column} is {text!r}, not a number")
        if not 0 <= number < float("inf"):
            self.fail(f"{column} is {text}; it must be 0 or more")
        return number

    def whole(self, column: str, default: int | None = None) -> int:
        number = self.number(column, default)
        if number != int(number):
            self.fail(f"{column} is {number}; it must be a whole number")
        return int(number)

    def moment(self, column: str) -> float | None:
        """Seconds since the epoch of a date and time (UTC unless it says otherwise), or of a number of seconds."""
        return None if not self.has(column) else self.parse_moment(self.text(column), column)

    def parse_moment(self, text: str, what: str) -> float:
        try:
            return float(text)
        except ValueError:
            pass
        bare = text.removesuffix(" PST").removesuffix(" PDT").removesuffix(" UTC")
        for form in TIME_FORMATS:
            try:
                return datetime.strptime(bare, form).replace(tzinfo=UTC).timestamp()
            except ValueError:
                continue
        try:
            return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        except ValueError:
            self.fail(f"{what} is {text!r}, not a time such as 2026-01-02 03:04:05")

    def fail(self, message: str) -> NoReturn:
        raise TraceError(self.path, message, self.line)


def read_rows(
    path: Path, required: Sequence[str], *, delimiter: str = ",", columns: Sequence[str] = ()
) -> Iterator[Row]:
    """Rows of a file; its first line has the column names, unless `columns` gives them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, fieldnames=columns or None, delimiter=delimiter)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            missing = [name for name in required if name not in names]
            if missing:
                found = ", ".join(names) or "nothing"
                raise TraceError(path, f"column {missing[0]!r} is missing; found {found}", 1)
            for values in reader:
                if None in values.values() and any(values[name] is None for name in required):
                    raise TraceError(path, f"the row has fewer than {len(names)} columns", reader.line_num)
                yield Row(path, reader.line_num, {str(name): value or "" for name, value in values.items()})
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(path, f"not a text file with columns: {error}") from None

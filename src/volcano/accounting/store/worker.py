"""All uses of the database by a program, as blocking calls for its threads. Importing this loads SQLAlchemy."""

from collections.abc import Collection

from volcano.accounting.api import Batch, Progress
from volcano.accounting.store import queries, requests
from volcano.accounting.store.database import Database
from volcano.accounting.store.recording import Recording
from volcano.accounting.store.requests import Parameters
from volcano.accounting.store.retention import has_expired, remove_leftovers, roll_up
from volcano.kube.api.manifest import Manifest


class DatabaseWorker:
    """An open database. Methods raise `DatabaseError`."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._recording = Recording(self._database)
        self.shown_url = self._database.shown_url

    def write(self, batch: Batch) -> None:
        self._recording.write(batch)

    def progress(self) -> Progress | None:
        return self._recording.progress()

    def close_missing(self, pods: Collection[str], jobs: Collection[str]) -> int:
        return self._recording.close_missing(pods, jobs)

    def answer(self, resource: str, namespace: str, parameters: Parameters, now: float) -> Manifest:
        return requests.answer(self._database, resource, namespace, parameters, now)

    def queue_totals(self, start: float, now: float) -> dict[tuple[str, str], float]:
        """Resource-seconds by queue and resource."""
        rows = queries.usage(self._database, queries.UsageQuery(start, now), now).rows
        return {
            (row.group["queue"], name): seconds for row in rows for name, seconds in row.resources.items()
        }

    def has_expired(self, before: float) -> bool:
        with self._database.read() as connection:
            return has_expired(connection, before)

    def roll_up(self, before: float) -> int:
        """Sums up one part of the old runs; returns the number of runs."""
        return roll_up(self._database, before)

    def remove_leftovers(self, before: float) -> None:
        remove_leftovers(self._database, before)
        self._recording.forget_workloads()

    def close(self) -> None:
        self._database.close()

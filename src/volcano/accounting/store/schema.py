"""Tables of the accounting database, alike in SQLite and PostgreSQL.

`runs` has a row for each pod run, which refers to what it shares with the other pods of its task in `workloads`: so a
million runs are summed in one pass over an index of three columns. `rollups` has the sums of runs that the retention
removed. Times are seconds since the epoch.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

SCHEMA_VERSION: Final = 1
TABLES: Final = MetaData()
_ID = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER is numbered by SQLite

INFORMATION: Final = Table(
    "information",
    TABLES,
    Column("name", Text, primary_key=True),  # schema-version, and up to where runs are recorded
    Column("value", Double, nullable=False),
)

WORKLOADS: Final = Table(
    "workloads",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("digest", Text, nullable=False, unique=True),  # of all other columns
    Column("namespace", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("job_uid", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("gpu_type", Text, nullable=False),
    Column("gpus", Double, nullable=False),
    Column("requests", Text, nullable=False),  # JSON, names sorted
    Index("workloads_of_jobs", "namespace", "job"),
    Index("workloads_by_job_uid", "job_uid"),
)

RUNS: Final = Table(
    "runs",
    TABLES,
    Column("uid", Text, primary_key=True),
    Column("workload", _ID, ForeignKey("workloads.id"), nullable=False),
    Column("pod", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("evictions", Integer, nullable=False),
    Column("estimated", Boolean, nullable=False),
    # All that sums need, so that the rows themselves are not read.
    Index("runs_of_workloads", "workload", "started", "ended", "created", "evictions"),
    Index("ended_runs", "ended"),  # also of those that are open
    Index("started_runs", "started"),
)

JOBS: Final = Table(
    "jobs",
    TABLES,
    Column("uid", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("phase", Text, nullable=False),
    Column("finished", Double),
    Column("deleted", Double),
    Column("message", Text, nullable=False),
    Column("min_available", Integer, nullable=False),
    Column("tasks", Text, nullable=False),  # JSON: replicas by task
    Index("jobs_by_name", "namespace", "name"),
    Index("jobs_by_creation", "created"),
)

ROLLUPS: Final = Table(
    "rollups",
    TABLES,
    Column("digest", Text, primary_key=True),  # of the month and the columns up to `requests`
    Column("month", Double, nullable=False, index=True),  # its start, UTC
    Column("namespace", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("gpu_type", Text, nullable=False),
    Column("gpus", Double, nullable=False),
    Column("requests", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("evictions", BigInteger, nullable=False),
    Column("waiting", Double, nullable=False),
)

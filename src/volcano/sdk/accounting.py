"""`usage`: who used which resources for how long, and what it costs."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from volcano.accounting.periods import period_start
from volcano.sdk.cluster import Cluster
from volcano.services.prices import Prices, read_prices
from volcano.services.usage import UsageReport, read_usage


def usage(
    by: str | Sequence[str] = "queue",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    period: str = "",
    namespace: str = "",
    queue: str = "",
    user: str = "",
    job: str = "",
    gpu_type: str = "",
    prices: Prices | str | Path | None = None,
    cluster: Cluster | None = None,
) -> UsageReport:
    """Usage by queue, user, namespace, job or gpu-type, since the begin of this month; `prices` is a file as for
    `vcctl usage --prices`.

    >>> report = usage("user")
    >>> report.by, report.total.hours.get("gpu", 0.0)
    (('user',), 0.0)
    """
    cluster = cluster or Cluster()
    connection = cluster.connection
    now = connection.clock.now().wall
    reading = read_usage(
        connection.client,
        start=period_start("month", now) if start is None else start.timestamp(),
        end=now if end is None else end.timestamp(),
        by=(by,) if isinstance(by, str) else tuple(by),
        period=period,
        namespace=namespace,
        queue=queue,
        user=user,
        job=job,
        gpu_type=gpu_type,
        prices=read_prices(Path(prices)) if isinstance(prices, str | Path) else prices,
    )
    return cluster.wait(reading)

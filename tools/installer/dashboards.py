"""Grafana dashboards as tables of panels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, ACROSS = 12, 8, 24


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: PromQL queries, each with a legend."""

    title: str
    unit: str
    queries: Mapping[str, str]


def _p99(metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def _p50(metric: str) -> str:
    return f"histogram_quantile(0.5, sum by (le) (rate({metric}_bucket[$__rate_interval])))"


CYCLE = "volcano_e2e_scheduling_latency_milliseconds"
JOB = "volcano_e2e_job_scheduling_latency_milliseconds"
SCHEDULER = (
    Panel("Cycle", "ms", {"p50": _p50(CYCLE), "p99": _p99(CYCLE)}),
    Panel("Job scheduling latency", "ms", {"p50": _p50(JOB), "p99": _p99(JOB)}),
    Panel(
        "Task scheduling attempts",
        "ops",
        {"{{result}}": "sum by (result) (rate(volcano_schedule_attempts_total[$__rate_interval]))"},
    ),
    Panel("Unschedulable jobs", "short", {"jobs": "sum(volcano_unschedule_job_count)"}),
    Panel(
        "Actions, p99", "ms", {"{{action}}": _p99("volcano_action_scheduling_latency_milliseconds", "action")}
    ),
    Panel(
        "Plugins, p99",
        "ms",
        {
            "{{plugin}} {{OnSession}}": _p99(
                "volcano_plugin_scheduling_latency_milliseconds", "plugin, OnSession"
            )
        },
    ),
    Panel(
        "Pod scheduling latency by stage, p99",
        "ms",
        {"{{stage}}": _p99("volcano_task_scheduling_latency_milliseconds", "stage")},
    ),
    Panel(
        "Evictions",
        "ops",
        {
            "{{action}}": "sum by (action) (rate(volcano_eviction_transactions_total[$__rate_interval]))",
            "cycles with victims": "sum(rate(volcano_total_preemption_attempts[$__rate_interval]))",
        },
    ),
)


def _queue(title: str, unit: str, *metrics: str) -> Panel:
    queries = {
        f"{{{{queue_name}}}} {metric.split('_')[2]}": f'max by (queue_name) ({metric}{{queue_name=~"$queue"}})'
        for metric in metrics
    }
    return Panel(title, unit, queries)


QUEUES = (
    _queue(
        "CPU",
        "short",
        "volcano_queue_allocated_milli_cpu",
        "volcano_queue_request_milli_cpu",
        "volcano_queue_deserved_milli_cpu",
    ),
    _queue(
        "Memory",
        "bytes",
        "volcano_queue_allocated_memory_bytes",
        "volcano_queue_request_memory_bytes",
        "volcano_queue_deserved_memory_bytes",
    ),
    Panel(
        "Devices allocated",
        "short",
        {
            "{{queue_name}} {{resource}}": "max by (queue_name, resource) "
            '(volcano_queue_allocated_scalar_resources{queue_name=~"$queue"})'
        },
    ),
    _queue("Share", "percentunit", "volcano_queue_share"),
    _queue("Overused", "short", "volcano_queue_overused"),
    Panel(
        "PodGroups by phase",
        "short",
        {
            f"{{{{queue_name}}}} {phase}": f'volcano_queue_pod_group_{phase}_count{{queue_name=~"$queue"}}'
            for phase in ("pending", "inqueue", "running", "completed", "unknown")
        },
    ),
    Panel(
        "Finished JobFlows",
        "short",
        {
            "{{jobflow_namespace}} well": "sum by (jobflow_namespace) (volcano_jobflow_succeed_phase_count)",
            "{{jobflow_namespace}} badly": "sum by (jobflow_namespace) (volcano_jobflow_failed_phase_count)",
        },
    ),
    Panel(
        "Shares of jobs",
        "percentunit",
        {"{{job_ns}}/{{job_id}}": "topk(10, volcano_job_share)"},
    ),
)
SECONDS = "volcano_queue_resource_seconds_total"


def _hours(title: str, resource: str, divisor: str = "3600") -> Panel:
    """Resource-hours of queues within the shown time."""
    selected = f'{SECONDS}{{queue=~"$queue", resource="{resource}"}}'
    return Panel(
        title, "short", {"{{queue}}": f"sum by (queue) (increase({selected}[$__range])) / {divisor}"}
    )


ACCOUNTING = (
    _hours("GPU hours", "gpu"),
    _hours("CPU hours", "cpu"),
    _hours("Memory, GiB hours", "memory", "(3600 * 1024 * 1024 * 1024)"),
    Panel(
        "GPUs in use, average",
        "short",
        {
            "{{queue}}": f'sum by (queue) (rate({SECONDS}{{queue=~"$queue", resource="gpu"}}[$__rate_interval]))'
        },
    ),
    Panel(
        "Cores in use, average",
        "short",
        {
            "{{queue}}": f'sum by (queue) (rate({SECONDS}{{queue=~"$queue", resource="cpu"}}[$__rate_interval]))',
            "{{queue_name}} allocated": "max by (queue_name) "
            '(volcano_queue_allocated_milli_cpu{queue_name=~"$queue"}) / 1000',
        },
    ),
    Panel(
        "Devices in use, average",
        "short",
        {
            "{{queue}} {{resource}}": f"sum by (queue, resource) (rate({SECONDS}"
            '{queue=~"$queue", resource=~".*/.*"}[$__rate_interval]))',
            "{{queue_name}} {{resource}} allocated": "max by (queue_name, resource) "
            '(volcano_queue_allocated_scalar_resources{queue_name=~"$queue"})',
        },
    ),
    Panel(
        "PodGroups",
        "short",
        {
            f"{{{{queue_name}}}} {phase}": f'volcano_queue_pod_group_{phase}_count{{queue_name=~"$queue"}}'
            for phase in ("pending", "running")
        },
    ),
    Panel(
        "Recorder",
        "short",
        {
            "rows to write": "max(volcano_accounting_pending_rows)",
            "rows dropped": "max(volcano_accounting_dropped_rows_total)",
            "failed writes in a row": "max(volcano_accounting_database_failures)",
        },
    ),
)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
DATASOURCE = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
QUEUE = {
    "name": "queue",
    "label": "Queue",
    "type": "query",
    "datasource": SOURCE,
    "query": {"query": "label_values(volcano_queue_weight, queue_name)", "refId": "queue"},
    "definition": "label_values(volcano_queue_weight, queue_name)",
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def dashboards() -> dict[str, str]:
    """File name to JSON, as shipped in the chart."""
    return {
        "volcano-scheduler.json": _dashboard(
            "Volcano scheduler", "volcano-scheduler", SCHEDULER, [DATASOURCE]
        ),
        "volcano-queues.json": _dashboard("Volcano queues", "volcano-queues", QUEUES, [DATASOURCE, QUEUE]),
        "volcano-accounting.json": _dashboard(
            "Volcano accounting", "volcano-accounting", ACCOUNTING, [DATASOURCE, QUEUE]
        ),
    }


def _dashboard(title: str, uid: str, panels: Sequence[Panel], variables: Sequence[Mapping[str, Any]]) -> str:
    content = {
        "title": title,
        "uid": uid,
        "tags": ["volcano"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(variables)},
        "panels": [_panel(place, panel) for place, panel in enumerate(panels)],
    }
    return json.dumps(content, indent=1) + "\n"


def _panel(place: int, panel: Panel) -> dict[str, Any]:
    left = place * WIDTH
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": left % ACROSS, "y": left // ACROSS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }

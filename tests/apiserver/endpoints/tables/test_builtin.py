"""Rows of the built-in kinds and of custom resources."""

from typing import Any

import pytest

from volcano.apiserver.endpoints.tables import printer_of, table
from volcano.apiserver.endpoints.tables.builtin import PRINTERS
from volcano.apiserver.endpoints.tables.custom import custom_printer
from volcano.apiserver.interfaces import Column, Served
from volcano.apiserver.registry.strategies import strategy_for
from volcano.base.clock import timestamp
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Manifest

NOW = 1_000_000.0
CREATED = timestamp(NOW - 60)


def cells(kind: Kind, manifest: Manifest) -> dict[str, Any]:
    """The row of an object, by column."""
    printer = PRINTERS[kind]
    metadata = {"name": "x", "creationTimestamp": CREATED, **manifest.get("metadata", {})}
    row = printer.handler({**manifest, "metadata": metadata}, NOW)
    return dict(zip((column.name for column in printer.columns), row, strict=True))


TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}
ROWS: list[tuple[Kind, Manifest, dict[str, Any]]] = [
    (kinds.NAMESPACE, {"status": {"phase": "Active"}}, {"Name": "x", "Status": "Active", "Age": "60s"}),
    (
        kinds.NODE,
        {
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.1", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        },
        {
            "Status": "Ready,SchedulingDisabled",
            "Roles": "gpu,worker",
            "Version": "v1.36.1",
            "Internal-IP": "10.0.0.1",
            "External-IP": "<none>",
            "OS-Image": "<unknown>",
            "Kernel-Version": "6.1 (amd64)",
        },
    ),
    (kinds.NODE, {}, {"Status": "Unknown", "Roles": "<none>", "Version": ""}),
    (
        kinds.NODE,
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"Status": "NotReady"},
    ),
    (
        kinds.EVENT,
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
            "firstTimestamp": timestamp(NOW - 30),
            "lastTimestamp": timestamp(NOW - 10),
            "count": 3,
            "type": "Normal",
            "reason": "Pulled",
            "message": " done \n",
            "source": {"component": "kubelet", "host": "n1"},
        },
        {
            "Last Seen": "10s",
            "First Seen": "30s",
            "Object": "pod/p",
            "Message": "done",
            "Source": "kubelet, n1",
            "Count": 3,
            "Subobject": "spec.containers{c}",
        },
    ),
    (
        kinds.EVENTS_EVENT,
        {
            "regarding": {"kind": "Job"},
            "eventTime": timestamp(NOW - 5),
            "note": "n",
            "reportingController": "c",
        },
        {"Last Seen": "5s", "Object": "job", "Message": "n", "Source": "c", "Count": 1},
    ),
    (
        kinds.SERVICE,
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIPs": ["10.1.1.1"],
                "ports": [
                    {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP"},
                ],
                "selector": {"app": "web"},
            }
        },
        {
            "Cluster-IP": "10.1.1.1",
            "External-IP": "<pending>",
            "Port(s)": "80:30080/TCP,53/UDP",
            "Selector": "app=web",
        },
    ),
    (
        kinds.SERVICE,
        {"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}},
        {"Cluster-IP": "None", "External-IP": "<none>", "Port(s)": "<none>"},
    ),
    (
        kinds.ENDPOINTS,
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{i}"} for i in range(5)], "ports": [{"port": 80}]}]},
        {"Endpoints": "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."},
    ),
    (kinds.ENDPOINTS, {}, {"Endpoints": "<none>"}),
    (
        kinds.ENDPOINT_SLICE,
        {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]},
        {"AddressType": "IPv4", "Ports": "80", "Endpoints": "10.0.0.1"},
    ),
    (kinds.CONFIG_MAP, {"data": {"a": "1"}, "binaryData": {"b": ""}}, {"Data": 2}),
    (kinds.SECRET, {"type": "Opaque", "data": {"a": ""}}, {"Type": "Opaque", "Data": 1}),
    (
        kinds.RESOURCE_QUOTA,
        {"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}},
        {"Request": "pods: 1/5", "Limit": "limits.cpu: 0/2"},
    ),
    (kinds.LEASE, {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
    (
        kinds.DEPLOYMENT,
        {
            "spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        },
        {
            "Ready": "2/3",
            "Up-to-date": 3,
            "Available": 1,
            "Containers": "a,b",
            "Images": "i:1,j",
            "Selector": "app=web",
        },
    ),
    (
        kinds.REPLICA_SET,
        {"spec": {"replicas": 3}, "status": {"replicas": 2, "readyReplicas": 1}},
        {"Desired": 3, "Current": 2, "Ready": 1},
    ),
    (kinds.STATEFUL_SET, {"spec": {"replicas": 2}}, {"Ready": "0/2"}),
    (
        kinds.DAEMON_SET,
        {"status": {"desiredNumberScheduled": 4, "numberReady": 3}},
        {"Desired": 4, "Ready": 3, "Node Selector": "<none>"},
    ),
    (
        kinds.BATCH_JOB,
        {
            "spec": {"completions": 5},
            "status": {
                "succeeded": 2,
                "startTime": timestamp(NOW - 50),
                "completionTime": timestamp(NOW - 20),
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        },
        {"Status": "Complete", "Completions": "2/5", "Duration": "30s"},
    ),
    (
        kinds.BATCH_JOB,
        {"spec": {"parallelism": 3}, "status": {"startTime": timestamp(NOW - 50)}},
        {"Status": "Running", "Completions": "0/1 of 3", "Duration": "50s"},
    ),
    (
        kinds.BATCH_CRON_JOB,
        {"spec": {"schedule": "* * * * *", "suspend": False}, "status": {"active": [{}]}},
        {
            "Schedule": "* * * * *",
            "Timezone": "<none>",
            "Suspend": "False",
            "Active": 1,
            "Last Schedule": "<none>",
        },
    ),
    (
        kinds.PERSISTENT_VOLUME,
        {
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "claimRef": {"namespace": "ns", "name": "c"},
            },
            "status": {"phase": "Bound"},
        },
        {"Capacity": "5Gi", "Access Modes": "RWO,RWX", "Claim": "ns/c", "Status": "Bound"},
    ),
    (
        kinds.PERSISTENT_VOLUME_CLAIM,
        {"spec": {"volumeName": "v"}, "status": {"capacity": {"storage": "5Gi"}, "phase": "Bound"}},
        {"Volume": "v", "Capacity": "5Gi"},
    ),
    (kinds.PERSISTENT_VOLUME_CLAIM, {"status": {"phase": "Pending"}}, {"Capacity": "", "Status": "Pending"}),
    (
        kinds.STORAGE_CLASS,
        {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
        {"Name": "x (default)", "ReclaimPolicy": "Delete", "AllowVolumeExpansion": False},
    ),
    (
        kinds.ROLE_BINDING,
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "namespace": "ns", "name": "s"},
            ],
        },
        {"Role": "Role/r", "Users": "u", "Groups": "g", "ServiceAccounts": "ns/s"},
    ),
    (kinds.CLUSTER_ROLE, {}, {"Name": "x", "Created At": CREATED}),
    (kinds.PRIORITY_CLASS, {"value": 7, "globalDefault": True}, {"Value": 7, "Global-Default": True}),
    (
        kinds.POD_DISRUPTION_BUDGET,
        {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
        {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 2},
    ),
    (kinds.MUTATING_WEBHOOK, {"webhooks": [{}, {}]}, {"Webhooks": 2}),
    (
        kinds.CONTROLLER_REVISION,
        {
            "metadata": {
                "ownerReferences": [
                    {"controller": True, "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}
                ]
            },
            "revision": 4,
        },
        {"Controller": "daemonset.apps/d", "Revision": 4},
    ),
]


@pytest.mark.parametrize(("kind", "manifest", "expected"), ROWS)
def test_rows_say_what_a_real_server_says(kind: Kind, manifest: Manifest, expected: dict[str, Any]) -> None:
    row = cells(kind, manifest)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize("kind", PRINTERS, ids=str)
def test_every_column_has_a_cell_even_for_an_empty_object(kind: Kind) -> None:
    assert "Name" in cells(kind, {})


COLUMNS = (
    Column("Phase", json_path=".status.phase"),
    Column("Count", type="integer", json_path=".status.count"),
    Column("Share", type="number", json_path=".status.share"),
    Column("Open", type="boolean", json_path=".spec.open"),
    Column("Started", type="date", json_path=".status.started"),
    Column("Ready", json_path='.status.conditions[?(@.type=="Ready")].status', priority=1),
    Column("Whole", json_path=".spec"),
)


def test_custom_columns_are_found_by_path_and_typed() -> None:
    manifest = {
        "metadata": {"name": "j"},
        "spec": {"open": True},
        "status": {
            "phase": "Running",
            "count": 3.0,
            "share": 1,
            "started": timestamp(NOW - 60),
            "conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}],
        },
    }
    row = custom_printer(COLUMNS).handler(manifest, NOW)
    assert row == ["j", "Running", 3, 1.0, True, "60s", "True", '{"open":true}']


def test_custom_columns_without_a_value_of_their_type_stay_empty() -> None:
    manifest = {
        "metadata": {"name": "j"},
        "status": {"count": "many", "started": "soon"},
        "spec": {"open": 1},
    }
    assert custom_printer(COLUMNS).handler(manifest, NOW)[:7] == [
        "j",
        None,
        None,
        None,
        None,
        "<invalid>",
        None,
    ]


def test_a_crd_without_columns_shows_the_age() -> None:
    custom = Served(kinds.JOB, kinds.JOB, strategy_for(kinds.POD), crd="jobs.batch.volcano.sh")
    assert [column.name for column in printer_of(custom).columns] == ["Name", "Age"]


def test_a_table_includes_metadata_by_default() -> None:
    printer = PRINTERS[kinds.NAMESPACE]
    manifest = {"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"finalizers": []}}
    whole, bare = (table(printer, [manifest], NOW, include=include) for include in ("Object", "None"))
    (row,) = table(printer, [manifest], NOW)["rows"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["labels"] == {"l": "1"}
    assert "spec" not in row["object"]
    assert whole["rows"][0]["object"] == manifest
    assert bare["rows"][0]["object"] is None

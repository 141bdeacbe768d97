"""Examples in the help of every command of `volcano`; tests parse each of them."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "": (
        "volcano up --detach",
        "volcano examples run allreduce",
        "volcano status",
    ),
    "up": (
        "volcano up",
        "volcano up --nodes 4 --node cpu=32,memory=128Gi,nvidia.com/gpu=8 --detach",
        "volcano up --nodes 64 --node nvidia.com/gpu=8 --topology rack=8,spine=4 --detach",
        "volcano up --name test --in-memory --no-local-node --nodes 100 --detach",
        "volcano up --scheduler-conf preempt --kubeconfig ~/.kube/config",
        "volcano up --images images.yaml",
    ),
    "down": ("volcano down", "volcano down --name test"),
    "status": ("volcano status", "volcano status --name test -o json"),
    "list": ("volcano list", "volcano list -o json"),
    "run": (
        "volcano run train.yaml",
        "volcano run --no-local-node --nodes 8 --node nvidia.com/gpu=8 train.yaml -o json",
    ),
    "examples": ("volcano examples list", "volcano examples run allreduce"),
    "examples list": ("volcano examples list",),
    "examples show": ("volcano examples show allreduce",),
    "examples run": ("volcano examples run allreduce", "volcano examples run array -- --no-local-node"),
    "demo": ("volcano demo",),
    "frameworks": ("volcano frameworks list", "volcano frameworks install ray"),
    "frameworks list": ("volcano frameworks list", "volcano frameworks list -o json"),
    "frameworks install": (
        "volcano frameworks install ray spark",
        "volcano frameworks install flink --timeout 10m -o json",
    ),
    "frameworks remove": ("volcano frameworks remove ray",),
    "frameworks path": ("volcano frameworks path spark",),
    "config": ("volcano config validate my-scheduler.conf", "volcano config show preempt"),
    "config validate": (
        "volcano config validate my-scheduler.conf",
        "volcano config validate my-scheduler.conf -o json",
    ),
    "config plan": (
        "volcano config plan my-scheduler.conf",
        "volcano config plan preempt --kubeconfig ~/.kube/config -o json",
        "volcano config plan my-scheduler.conf --snapshot cluster.snapshot",
    ),
    "config show": ("volcano config show", "volcano config show preempt"),
    "backup": ("volcano backup cluster.tar.gz", "volcano backup cluster.tar.gz --name test --force"),
    "restore": ("volcano restore cluster.tar.gz --data-dir ./restored",),
    "check": (
        "volcano check",
        "volcano check cluster.tar.gz",
        "volcano check --data-dir ./damaged --salvage ./saved",
    ),
    "nodes": (
        "volcano nodes --kubeconfig ~/.kube/config --nodes 1000 --node cpu=64,memory=256Gi",
        "volcano nodes --nodes 64 --topology rack=8,spine=4",
    ),
    "dashboard": (
        "volcano dashboard --link",
        "volcano dashboard --kubeconfig ~/.kube/config",
        "volcano dashboard --auth token --address 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key",
    ),
    "simulate": (
        "volcano simulate --nodes nodes.csv --trace pods.csv --format openb --config default --config preempt",
        "volcano simulate --trace jobs.swf --config a.conf --config b.conf --report out/",
        "volcano simulate --trace workload.yaml --set queue.research.weight=4 --scale-arrivals 1.3 -o json",
        "volcano simulate --from-cluster --add-nodes 10:a100 --kill-rack rack-3@2h",
        "volcano simulate --experiment packing --nodes nodes.csv --trace pods.csv --format openb --seeds 10 -o json",
    ),
    "snapshot": ("volcano snapshot save cluster.snapshot",),
    "snapshot save": (
        "volcano snapshot save cluster.snapshot",
        "volcano snapshot save cluster.snapshot --kubeconfig ~/.kube/config --config preempt",
    ),
    "completion": ('eval "$(volcano completion bash)"',),
}

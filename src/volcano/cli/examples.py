"""Examples in the help of every command; tests parse each of them."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "job run": (
        "vcctl job run -N demo -i busybox -r 3 -m 3 -R cpu=500m,memory=64Mi",
        "vcctl job run -f train.yaml",
    ),
    "job list": (
        "vcctl job list -A",
        "vcctl job list -q research --sort-by Age",
        "vcctl job list -o json",
        "vcctl job list --start",
    ),
    "job view": ("vcctl job view train", "vcctl job view -N train -n team-a"),
    "job suspend": ("vcctl job suspend train",),
    "job resume": ("vcctl job resume train",),
    "job delete": ("vcctl job delete train",),
    "job requeue": ("vcctl job requeue train",),
    "job hold": ("vcctl job hold train",),
    "job release": ("vcctl job release train",),
    "job update": (
        "vcctl job update train --workers 8",
        "vcctl job update train --queue research --priority high",
    ),
    "job logs": ("vcctl job logs train -f", "vcctl job logs train --task worker --index 3 --tail 100"),
    "job wait": ("vcctl job wait train --for=Completed --timeout 30m",),
    "job describe": ("vcctl job describe train", "vcctl job describe train -o json"),
    "job outputs": ("vcctl job outputs train results", "vcctl job outputs train . --namespace team-a"),
    "queue create": (
        "vcctl queue create research -w 3",
        "vcctl queue create vision --parent research --capability cpu=64,nvidia.com/gpu=16",
    ),
    "queue delete": ("vcctl queue delete research", "vcctl queue delete research --yes"),
    "queue operate": ("vcctl queue operate research -a close", "vcctl queue operate research -a update -w 5"),
    "queue update": ("vcctl queue update research -w 5 --guarantee nvidia.com/gpu=8",),
    "queue list": ("vcctl queue list", "vcctl queue list -o wide"),
    "queue get": ("vcctl queue get research",),
    "queue tree": ("vcctl queue tree", "vcctl queue tree -o json"),
    "topology": (
        "vcctl topology",
        "vcctl topology spine-0 --nodes",
        "vcctl topology --pod nvidia.com/gpu=8,cpu=16",
        "vcctl topology --resource cpu -o json",
    ),
    "jobflow create": ("vcctl jobflow create -f flow.yaml",),
    "jobflow list": ("vcctl jobflow list -A",),
    "jobflow get": ("vcctl jobflow get nightly",),
    "jobflow delete": ("vcctl jobflow delete nightly", "vcctl jobflow delete -f flow.yaml"),
    "jobflow describe": ("vcctl jobflow describe nightly -o json",),
    "jobtemplate create": ("vcctl jobtemplate create -f templates.yaml",),
    "jobtemplate list": ("vcctl jobtemplate list",),
    "jobtemplate get": ("vcctl jobtemplate get preprocess",),
    "jobtemplate delete": ("vcctl jobtemplate delete preprocess",),
    "jobtemplate describe": ("vcctl jobtemplate describe preprocess",),
    "reservation create": (
        "vcctl reservation create upgrade --nodes node-1,node-2 --start 2026-03-01T08:00 --duration 4h",
        "vcctl reservation create deadline --selector pool=gpu --count 8 --queue research --start +12h --duration 2-00",
    ),
    "reservation list": ("vcctl reservation list", "vcctl reservation list -o json"),
    "reservation delete": ("vcctl reservation delete upgrade",),
    "pod list": ("vcctl pod list -j train", "vcctl pod list -q research -o wide"),
    "podgroup list": ("vcctl podgroup list", "vcctl podgroup list -q research -o wide"),
    "podgroup get": ("vcctl podgroup get train",),
    "podgroup describe": ("vcctl podgroup describe train",),
    "submit": (
        "vcctl submit --workers 4 --gpus 2 --queue research -- python train.py",
        "vcctl submit --workers 8 --plugin pytorch --retries 3 --follow -- python train.py",
        "vcctl submit --workers 4 --upload --env-file .env -- python train.py",
        "vcctl submit --workers 4 --dry-run -o yaml -- python train.py",
        "vcctl submit --array 1-100%10 --time 2h -- ./simulate.sh",
        "vcctl submit --dependency afterok:train -- python evaluate.py",
    ),
    "top": ("vcctl top", "vcctl top --once -o json"),
    "completion": ('eval "$(vcctl completion bash)"',),
    "help": ("vcctl help job list",),
    "version": ("vcctl version",),
    "vsub": ("vsub train.sh", 'vsub -n demo -r 3 -c "sleep 60"'),
    "vjobs": ("vjobs", "vjobs -n train"),
    "vqueues": ("vqueues",),
    "vcancel": ("vcancel -n train",),
    "vsuspend": ("vsuspend -n train",),
    "vresume": ("vresume -n train",),
}


def epilog(words: str) -> str:
    """Examples of a command as the last part of its help."""
    lines = EXAMPLES.get(words, ())
    return "examples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

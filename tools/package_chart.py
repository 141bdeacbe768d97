"""Packages the chart for a static file server: `python -m tools.package_chart FOLDER [ADDRESS]`, then serve
FOLDER.

An existing index keeps the versions it lists.
"""

import sys
from pathlib import Path

from tools.installer.places import CHART, NoHelm, find_helm, run_helm

USAGE = "usage: python -m tools.package_chart FOLDER [ADDRESS]"


def main() -> int:
    if not 2 <= len(sys.argv) <= 3:
        print(USAGE, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    try:
        package(find_helm(), folder, *sys.argv[2:])
    except NoHelm as error:
        print(f"package_chart: {error}", file=sys.stderr)
        return 1
    print(f"{folder} is ready to be served: helm repo add volcano-sh <its address>")
    return 0


def package(helm: Path, folder: Path, address: str = "", *, chart: Path = CHART) -> None:
    """Writes the packaged chart and an index into a folder; entries are relative unless `address` is given."""
    folder.mkdir(parents=True, exist_ok=True)
    run_helm(helm, "package", str(chart), "--destination", str(folder))
    index = folder / "index.yaml"
    arguments = ["repo", "index", str(folder)]
    if address:
        arguments += ["--url", address]
    if index.exists():
        arguments += ["--merge", str(index)]
    run_helm(helm, *arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Runs the benchmarks: prints a table, or one JSON object per case with --json."""

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import bench
from bench.case import Case


def names() -> list[str]:
    """Every benchmark module in this package."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(bench.__file__).parent)]))
    return sorted(name for name in found if name not in ("case", "__main__") and not name.startswith("_"))


def run(name: str, scale: float) -> Iterator[Case]:
    yield from importlib.import_module(f"bench.{name}").cases(scale)


def show(case: Case) -> None:
    metrics = "  ".join(f"{name}={value:,.4g}" for name, value in case.metrics.items())
    missed = case.missed()
    result = "" if not case.targets else f"  MISSED {', '.join(missed)}" if missed else "  met"
    print(f"{case.bench:<14} {case.case:<44} {metrics}{result}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benches", nargs="*", help=f"which to run (default: all of {', '.join(names())})")
    parser.add_argument("--json", action="store_true", help="one JSON object per case")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the run; 0.1 is a quick run")
    arguments = parser.parse_args()
    unknown = set(arguments.benches) - set(names())
    if unknown:
        parser.error(f"no benchmark called {', '.join(sorted(unknown))}; choose from {', '.join(names())}")
    for name in arguments.benches or names():
        if not arguments.json:
            print(f"running {name} ...", file=sys.stderr, flush=True)
        for case in run(name, arguments.scale):
            if arguments.json:
                record = {
                    "bench": case.bench,
                    "case": case.case,
                    "metrics": case.metrics,
                    "targets": case.targets,
                }
                print(json.dumps(record), flush=True)
            else:
                show(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`vc-hypernode-controller-manager`: the HyperNode controller alone, for a Kubernetes API server."""

import argparse
import sys
from collections.abc import Sequence

from volcano.cli.program_parser import ProgramParser, examples
from volcano.cmd import controllers
from volcano.cmd.feature_gates import parse_gates
from volcano.component import process
from volcano.controllers.hypernode.controller import HyperNodeController

NAME = "vc-hypernode-controller-manager"


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse(arguments)
    return process.run_until_signal(controllers.run(parsed, NAME), name=NAME, verbosity=parsed.v)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses and validates the flags. Exits with a message if they are invalid."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    parsed.controllers, parsed.gates = [HyperNodeController.name], parse_gates("")
    parsed.accounting_database = ""
    problem = _problem(parsed)
    if problem:
        parser.fail(problem)
    return parsed


def build_parser() -> ProgramParser:
    parser = ProgramParser(
        prog=NAME,
        description="Run the controller of HyperNodes, which also discovers them, for a Kubernetes cluster. "
        "vc-controller-manager contains it too: only one of both may run it.",
        epilog=examples(
            "vc-hypernode-controller-manager --kubeconfig ~/.kube/config",
            "vc-hypernode-controller-manager --enable-healthz --enable-metrics",
        ),
    )
    process.add_client_flags(parser, qps=50, burst=100)
    process.add_election_flags(parser, name=NAME)
    process.add_serving_flags(parser, metrics_address=":8081")
    process.add_ignored_flags(parser)
    return parser


def _problem(parsed: argparse.Namespace) -> str:
    if parsed.kube_api_qps <= 0:
        return f"--kube-api-qps={parsed.kube_api_qps:g}: must be greater than 0"
    if parsed.kube_api_burst <= 0:
        return f"--kube-api-burst={parsed.kube_api_burst}: must be greater than 0"
    if parsed.enable_healthz and parsed.enable_metrics:
        health, metrics = map(process.split_address, (parsed.healthz_address, parsed.listen_address))
        anywhere = "0.0.0.0"
        if health[1] == metrics[1] and (health[0] == metrics[0] or anywhere in (health[0], metrics[0])):
            return (
                f"--healthz-address={parsed.healthz_address} and --listen-address={parsed.listen_address} overlap; "
                "use different ports"
            )
    return ""


if __name__ == "__main__":
    sys.exit(main())

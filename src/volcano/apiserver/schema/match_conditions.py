"""Match conditions of webhooks: CEL expressions over the request and its objects."""

from functools import lru_cache

from volcano.kube.cel import types
from volcano.kube.cel.declarations import DYN
from volcano.kube.cel.program import InvalidExpression, Program

# Most cost of all conditions of a webhook for one request, as in kube-apiserver.
CONDITIONS_LIMIT = 2_500_000
_VARIABLES = {"object": DYN, "oldObject": DYN, "request": DYN}


@lru_cache(maxsize=1024)
def compile_match_condition(source: str) -> Program:
    """Compiles a match condition. Raises `InvalidExpression`."""
    program = Program(source.strip(), _VARIABLES)
    if program.result not in (types.BOOL, types.DYN):
        raise InvalidExpression("must evaluate to bool")
    return program

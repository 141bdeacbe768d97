"""Pod annotations that replace the strategies of the configuration."""

import msgspec

from volcano.kube.api.names import STRATEGY_SCORING_TYPE, STRATEGY_WEIGHT
from volcano.model.task import Task
from volcano.scheduler.plugins.resource_strategy_fit.settings import STRATEGIES, Strategy


class MalformedStrategyError(Exception):
    """Annotations that cannot be used; the message says what would be right."""


def pod_strategies(task: Task) -> dict[str, Strategy] | None:
    """Returns the strategies in the annotations of a pod, by resource; None without annotations.

    Raises MalformedStrategyError.
    """
    scoring, weights = (task.annotations.get(name) for name in (STRATEGY_SCORING_TYPE, STRATEGY_WEIGHT))
    if scoring is None and weights is None:
        return None
    if scoring not in STRATEGIES:
        given = "missing" if scoring is None else repr(scoring)
        raise MalformedStrategyError(
            f"annotation {STRATEGY_SCORING_TYPE} is {given}; it must be {' or '.join(STRATEGIES)}"
        )
    return {name: Strategy(scoring, weight) for name, weight in _weights(weights).items()}


def _weights(text: str | None) -> dict[str, int]:
    try:
        weights = msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        weights = {}
    if not weights or any(weight < 0 for weight in weights.values()):
        given = "missing" if text is None else repr(text)
        raise MalformedStrategyError(
            f"annotation {STRATEGY_WEIGHT} is {given}; it must be a JSON map of resource names to weights, "
            'such as {"cpu": 1, "nvidia.com/gpu": 2}'
        )
    return weights

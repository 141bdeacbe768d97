"""Prices of resources, from a file:

```yaml
currency: EUR
prices:              # for one hour
  cpu: 0.03          # of a core
  memory: 0.004      # of a GiB
  gpu:               # of a GPU, by type; a share of one costs its part
    default: 1.80
    NVIDIA-H100: 4.50
queues:              # factors
  research: 0.5
```
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from volcano.accounting.api import GPU
from volcano.base.os_errors import explain_os_error
from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.services.accounting import hours
from volcano.services.errors import ServiceError

KEYS: Final = ("currency", "prices", "queues")
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one hour."""

    currency: str = ""
    resources: Mapping[str, float] = field(default_factory=dict)
    gpus: Mapping[str, float] = field(default_factory=dict)  # by type; `default` for others
    queues: Mapping[str, float] = field(default_factory=dict)  # factors

    def cost(self, resources: Mapping[str, float], gpu_type: str, queue: str) -> float:
        """Cost of resource-seconds."""
        total = sum(hours(resources, name) * price for name, price in self.resources.items())
        if resources.get(GPU):
            total += hours(resources, GPU) * self.gpus.get(gpu_type, self.gpus.get(DEFAULT, 0.0))
        return total * self.queues.get(queue, 1.0)

    def unpriced(self, gpu_type: str) -> bool:
        """Whether GPUs of a type have no price, although others have."""
        return bool(self.gpus) and gpu_type not in self.gpus and DEFAULT not in self.gpus


def read_prices(path: Path) -> Prices:
    """Prices of a file. Raises ServiceError that names the file, the key and what would be right."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ServiceError(explain_os_error(error, str(path))) from None
    return parse_prices(text, str(path))


def parse_prices(text: bytes, path: str) -> Prices:
    """Prices of a text; errors name it by `path`."""
    try:
        document = load_yaml(text).value
    except YamlError as error:
        raise ServiceError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(document, dict):
        raise ServiceError(f"{path}: write a mapping with the keys {', '.join(KEYS)}")
    for key in document:
        if key not in KEYS:
            raise ServiceError(f"{path}: unknown key {key!r}; choose from {', '.join(KEYS)}")
    prices = dict(_mapping(path, "prices", document.get("prices")))
    if not prices:
        raise ServiceError(f"{path}: prices is empty; such as prices: {{cpu: 0.03, gpu: 2.5}}")
    gpus = _gpu_prices(path, prices.pop(GPU, None))
    devices = [name for name in prices if name.endswith("/gpu")]
    if gpus and devices:
        raise ServiceError(
            f"{path}: prices.{GPU} and prices.{devices[0]} count the same GPUs twice; keep one"
        )
    return Prices(
        str(document.get("currency") or ""),
        {name: _number(path, f"prices.{name}", value) for name, value in prices.items()},
        gpus,
        {
            name: _number(path, f"queues.{name}", value)
            for name, value in _mapping(path, "queues", document.get("queues")).items()
        },
    )


def _gpu_prices(path: str, value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(name): _number(path, f"prices.{GPU}.{name}", price) for name, price in value.items()}
    return {DEFAULT: _number(path, f"prices.{GPU}", value)}


def _mapping(path: str, key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ServiceError(f"{path}: {key} is {value!r}; write a mapping of names to numbers")
    return {str(name): each for name, each in value.items()}


def _number(path: str, key: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0:
        raise ServiceError(f"{path}: {key} is {value!r}; write a number of 0 or more, such as 2.5")
    return float(value)

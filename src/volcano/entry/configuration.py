"""`volcano config validate`: validates a scheduler configuration without a scheduler."""

import sys
from pathlib import Path

from volcano.local.system import CONFIG_KEY
from volcano.scheduler.engine.config import ConfigError, parse
from volcano.yaml_loader import YamlError, load_yaml


def validate(path: Path) -> int:
    """Prints the errors of a file, or that it is valid."""
    try:
        config = parse(read(path), str(path))
    except ConfigError as error:
        print(f"volcano: {error}", file=sys.stderr)
        return 1
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    plugins = ", ".join(plugin.name for tier in config.tiers for plugin in tier)
    print(f"{path}: valid\n  actions  {', '.join(config.actions)}\n  plugins  {plugins}")
    return 0


def read(path: Path) -> str:
    """Reads the configuration from a file, or from a ConfigMap in that file. Raises ConfigError."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(str(path), 0, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), 0, "not a text file") from None
    return _embedded(text) or text


def checked(path: Path) -> str:
    """Reads and validates a configuration as the scheduler does. Raises ConfigError."""
    text = read(path)
    parse(text, str(path))
    return text


def _embedded(text: str) -> str | None:
    """Configuration inside a ConfigMap; None if the text is not a ConfigMap."""
    try:
        found = load_yaml(text).value
    except YamlError:
        return None
    if isinstance(found, dict) and found.get("kind") == "ConfigMap":
        data = found.get("data") or {}
        inner = data.get(CONFIG_KEY) or next(iter(data.values()), "")
        return str(inner)
    return None

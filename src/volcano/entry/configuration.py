"""`volcano config validate`: what the scheduler would say of a configuration, without a scheduler."""

import sys
from pathlib import Path

import yaml

from volcano.local.system import CONFIG_KEY
from volcano.scheduler.config import ConfigError, parse


def validate(path: Path) -> int:
    """Prints what is wrong with a file, or that nothing is; a ConfigMap that holds the configuration will do too."""
    try:
        text = path.read_text()
    except OSError as error:
        print(f"volcano: {path}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        config = parse(_embedded(text) or text, str(path))
    except ConfigError as error:
        print(f"volcano: {error}", file=sys.stderr)
        return 1
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    plugins = ", ".join(plugin.name for tier in config.tiers for plugin in tier)
    print(f"{path}: valid\n  actions  {', '.join(config.actions)}\n  plugins  {plugins}")
    return 0


def _embedded(text: str) -> str | None:
    """The configuration inside a ConfigMap; None when the text is none."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if isinstance(found, dict) and found.get("kind") == "ConfigMap":
        data = found.get("data") or {}
        inner = data.get(CONFIG_KEY) or next(iter(data.values()), "")
        return str(inner)
    return None

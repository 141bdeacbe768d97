"""`volcano config`: validates scheduler configurations without a scheduler, and shows those of the package."""

import argparse
import json
import sys
from pathlib import Path

from volcano.base.os_errors import explain_os_error
from volcano.base.yaml_loader import YamlError, load_yaml
from volcano.cli.errors import near
from volcano.embedded.system import CONFIG_KEY
from volcano.scheduler.engine.config import PRESETS, ConfigError, parse, shipped
from volcano.services.errors import NotFoundError


def validate(arguments: argparse.Namespace) -> int:
    """Prints all errors and warnings of a file, or that it is valid."""
    chosen: str = arguments.file
    errors: list[ConfigError] = []
    warnings: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    plugins: list[str] = []
    try:
        config = parse(read(chosen), chosen)
    except ConfigError as error:
        errors = list(error.all)
    else:
        warnings, actions = config.warnings, config.actions
        plugins = [plugin.name for tier in config.tiers for plugin in tier]
    if arguments.output == "json":
        found = [{"line": each.line, "message": each.problem} for each in errors]
        data = {
            "file": chosen,
            "valid": not errors,
            "errors": found,
            "warnings": list(warnings),
            "actions": list(actions),
            "plugins": plugins,
        }
        print(json.dumps(data, indent=2))
        return 1 if errors else 0
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for each in errors:
        print(each, file=sys.stderr)
    if errors:
        print(f"volcano: {chosen}: {len(errors)} error{'' if len(errors) == 1 else 's'}", file=sys.stderr)
        return 1
    print(f"{chosen}: valid\n  actions  {', '.join(actions)}\n  plugins  {', '.join(plugins)}")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Prints a configuration of the package, or the names of all."""
    name: str = arguments.preset
    if not name:
        for each in PRESETS:
            print(f"{each:<12}{', '.join(parse(shipped(PRESETS[each])).actions)}")
        return 0
    if name not in PRESETS:
        raise NotFoundError(
            f"no configuration {name!r}{near(name, PRESETS)}; choose from {', '.join(PRESETS)}"
        )
    print(shipped(PRESETS[name]), end="")
    return 0


def read(chosen: str) -> str:
    """Reads a configuration by the name of a preset, from a file, or from a ConfigMap in a file.

    Raises ConfigError. A file with the name of a preset is meant by a path, such as ./preempt.
    """
    if chosen in PRESETS:
        return shipped(PRESETS[chosen])
    try:
        text = Path(chosen).read_text()
    except OSError as error:
        hint = near(chosen, PRESETS) if "/" not in chosen else ""
        raise ConfigError(chosen, 0, explain_os_error(OSError(error.errno, error.strerror)) + hint) from None
    except UnicodeDecodeError:
        raise ConfigError(chosen, 0, "not a text file") from None
    return _embedded(text) or text


def checked(chosen: str) -> str:
    """Reads and validates a configuration as the scheduler does. Raises ConfigError."""
    text = read(chosen)
    parse(text, chosen)
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

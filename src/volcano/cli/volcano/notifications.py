"""Flags of the notifications of `vc-controller-manager`."""

import argparse

from volcano.controllers.notifications.outbox import OutboxSettings
from volcano.controllers.notifications.targets import Targets


def add_target_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--notify-allow",
        action="append",
        default=[],
        metavar="TARGET",
        help="send notifications of jobs (annotation volcano.sh/notify) only to TARGET, an address, network (CIDR), "
        "host name or `all`; repeatable (default: to public addresses)",
    )


def add_notification_flags(parser: argparse.ArgumentParser) -> None:
    add_target_flag(parser)
    parser.add_argument(
        "--notify-source",
        default="/volcano",
        metavar="TEXT",
        help="begin of the attribute `source` of notifications, different for each cluster (default /volcano)",
    )


def notification_problem(arguments: argparse.Namespace) -> str:
    """Error in the flags; empty if they are valid."""
    try:
        Targets(arguments.notify_allow)
    except ValueError as error:
        return f"--notify-allow: {error}"
    source: str = arguments.notify_source
    if not source or any(not "!" <= character <= "~" for character in source):
        return f"--notify-source: {source!r} is no URI reference; write such as /clusters/a"
    return ""


def settings_of(arguments: argparse.Namespace) -> OutboxSettings:
    """The settings that the flags ask for."""
    return OutboxSettings(source=arguments.notify_source)

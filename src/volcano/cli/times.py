"""Moments and spans as the reference's commands write them."""

from volcano.clock import parse_timestamp


def day(moment: str | None) -> str:
    """The date of a timestamp."""
    return (moment or "")[:10]


def span(seconds: float) -> str:
    """`5s`, `3m20s`, `2h5m`, `3d4h`: the two largest units that say something, fewer as it grows."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if days < 8 * 365:
        return f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
    return f"{days // 365}y"


def age(moment: str | None, now: float) -> str:
    """How long ago a timestamp was, in kubectl's way; `<unknown>` without one."""
    return span(now - parse_timestamp(moment)) if moment else "<unknown>"

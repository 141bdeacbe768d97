"""Shares of the users of a queue, as its annotation `volcano.sh/user-shares` gives them."""

from typing import Final

MOST_SHARE: Final = 1e9
EXAMPLE: Final = "alice=3,bob=1"


def parse_shares(text: str) -> dict[str, float]:
    """Parses `alice=3,bob=1`. Raises ValueError with what would be right."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        user, separator, amount = (piece.strip() for piece in part.rpartition("="))
        try:
            share = float(amount)
        except ValueError:
            share = -1.0
        if not separator or not user or not 0 <= share <= MOST_SHARE:
            raise ValueError(
                f"{part!r} is no user with a share; write users with numbers of at least 0, as {EXAMPLE}"
            )
        if user in found:
            raise ValueError(f"user {user!r} has two shares; name each user once, as {EXAMPLE}")
        found[user] = share
    return found

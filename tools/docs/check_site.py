"""Checks a built site: pages load nothing from other hosts. Prints what does; returns 1 if anything does."""

import re
import sys
from pathlib import Path

LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?((?:https?:)?//[^"'\s>]+)""")
LINKED = re.compile(r"""<link[^>]*\shref=["']?((?:https?:)?//[^"'\s>]+)[^>]*>""")
NAVIGATION = re.compile(r"""rel=["']?(?:canonical|next|prev|alternate)""")


def external(page: str) -> list[str]:
    """Addresses on other hosts that a browser loads with a page."""
    links = [match[1] for match in LINKED.finditer(page) if not NAVIGATION.search(match[0])]
    return [match[1] for match in LOADED.finditer(page)] + links


def main(site: Path) -> int:
    pages = sorted(site.rglob("*.html"))
    found = [
        f"{page.relative_to(site)}: {address}" for page in pages for address in external(page.read_text())
    ]
    print("\n".join(found) if found else f"{len(pages)} pages load nothing from other hosts")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

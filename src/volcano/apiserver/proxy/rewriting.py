"""Rewrites links of a proxied server to its own paths, so that they lead through the proxy again."""

import gzip
import posixpath
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import urlsplit, urlunsplit

# Attributes of HTML elements that contain a URL.
URL_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    element: frozenset(attributes.split())
    for element, attributes in {
        "a": "href", "applet": "codebase", "area": "href", "audio": "src", "base": "href", "blockquote": "cite",
        "body": "background", "button": "formaction", "command": "icon", "del": "cite", "embed": "src",
        "form": "action", "frame": "longdesc src", "head": "profile", "html": "manifest",
        "iframe": "longdesc src", "img": "longdesc src usemap", "input": "formaction src usemap", "ins": "cite",
        "link": "href", "object": "classid codebase data usemap", "q": "cite", "script": "src", "source": "src",
        "video": "poster src",
    }.items()
}  # fmt: skip
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'=<>`]+)""")


@dataclass(frozen=True, slots=True)
class LinkRewriter:
    """Rewrites links of the server behind `prefix`, the path of its proxy."""

    prefix: str
    path: str  # of the request, percent-encoded, without the prefix
    hosts: frozenset[str]  # host:port of the server and of the API server as the client knows it

    @property
    def forwarded_uri(self) -> str:
        return self.prefix + (self.path or "/")

    def rewrite(self, link: str) -> str:
        """The link through the proxy; links to other hosts and relative ones are returned unchanged."""
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        if (parts.netloc and parts.netloc not in self.hosts) or not parts.path.startswith("/"):
            return link
        path = parts.path
        if not path.startswith(self.prefix):
            joined = posixpath.normpath(f"{self.prefix}/{path.lstrip('/')}")
            path = f"{joined}/" if path.endswith("/") else joined
        return urlunsplit(("", "", path, parts.query, parts.fragment))

    def applies_to(self, headers: Mapping[str, str]) -> bool:
        """Whether a response with these headers is an HTML page in an encoding that can be read."""
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        return media_type == "text/html" and headers.get("content-encoding", "") in ("", "gzip", "deflate")

    def rewrite_page(self, page: bytes, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """An HTML page with rewritten links, and the header of its encoding."""
        encoding = headers.get("content-encoding", "")
        try:
            plain = _decoded(page, encoding)
        except (OSError, EOFError, zlib.error):
            return page, {"Content-Encoding": encoding}  # the client reports it
        # Markup is ASCII in all encodings of HTML that matter here: other bytes are kept as they are.
        rewritten = (
            _PageRewriter(self).rewrite(plain.decode("latin-1")).encode("latin-1", "xmlcharrefreplace")
        )
        if encoding == "gzip":
            return gzip.compress(rewritten, mtime=0), {"Content-Encoding": "gzip"}
        return rewritten, {}


def _decoded(page: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(page)
    return zlib.decompress(page) if encoding == "deflate" else page


class _PageRewriter(HTMLParser):
    """Finds start tags and replaces the URLs in them; everything else of a page is kept as it is."""

    def __init__(self, links: LinkRewriter) -> None:
        super().__init__(convert_charrefs=False)
        self._links = links
        self._offsets: list[int] = []  # of the lines
        self._changes: list[tuple[int, str, str]] = []

    def rewrite(self, page: str) -> str:
        self._offsets = [0, *(match.end() for match in re.finditer("\n", page))]
        self.feed(page)
        parts, done = [], 0
        for start, before, after in self._changes:
            if page.startswith(before, start) and start >= done:
                parts += [page[done:start], after]
                done = start + len(before)
        return "".join([*parts, page[done:]])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted, text = URL_ATTRIBUTES.get(tag), self.get_starttag_text()
        if wanted is None or text is None:
            return
        line, column = self.getpos()

        def replaced(match: re.Match[str]) -> str:
            if match[1].lower() not in wanted:
                return match[0]
            quote = match[3][0] if match[3][0] in "\"'" else ""
            value = unescape(match[3].strip(quote) if quote else match[3])
            link = self._links.rewrite(value.strip())
            return match[0] if link == value.strip() else f'{match[1]}{match[2]}"{escape(link)}"'

        after = _ATTRIBUTE.sub(replaced, text)
        if after != text:
            self._changes.append((self._offsets[line - 1] + column, text, after))

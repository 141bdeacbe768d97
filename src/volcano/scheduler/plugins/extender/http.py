"""Port of an extender over HTTP; blocking, because a cycle runs in its own thread."""

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

LONGEST = 10 * 2**20  # bytes of a response


class HttpPort:
    """Posts with one connection per request; any status but 200 is an error."""

    def post(self, url: str, body: bytes, timeout: float) -> bytes:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address; write http://host:port/path")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=timeout)
        try:
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path or "/", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read(LONGEST + 1)
        except HTTPException as error:
            raise OSError(f"{url}: {error!r}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"{url} answered {response.status} {response.reason}")
        if len(content) > LONGEST:
            raise ValueError(f"{url} answered more than {LONGEST} bytes")
        return content

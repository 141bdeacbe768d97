"""Seeded HTTP requests: malformed ones, and valid ones with unusual paths, queries, headers and bodies."""

import gzip
import json
from collections.abc import Callable
from random import Random
from urllib.parse import quote

from tests.fuzz.mutations import SCALARS
from tests.fuzz.samples import NAMESPACE

LARGE_NUMBER = "9" * 6000
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PATHS = (
    "/", "/api", "/apis", "/api/v1", "/apis/batch.volcano.sh", "/apis/batch.volcano.sh/v1alpha1", "/openapi/v3",
    "/openapi/v2",
    "/openapi/v3/api/v1", "/version", "/healthz", "/livez", "/readyz", "/readyz/store", "/metrics",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks", MAPS, f"{MAPS}/x", f"{MAPS}/x/status", PODS, f"{PODS}/x", f"{PODS}/x/log",
    f"{PODS}/x/exec", f"{PODS}/x/binding",
    f"{PODS}/x/eviction", f"{PODS}/x/resize", f"{PODS}/x/ephemeralcontainers", f"{PODS}/x/portforward",
    "/api/v1/pods", "/api/v1/nodes",
    "/api/v1/namespaces", f"/api/v1/namespaces/{NAMESPACE}", "/api/v1/namespaces/nowhere/pods",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/x/scale",
    f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs",
    "/apis/scheduling.volcano.sh/v1beta1/queues", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    f"/apis/authorization.k8s.io/v1/namespaces/{NAMESPACE}/localsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/none/v1/nothing", "/api/v1/watch/pods", "//", "/..", "/%2e%2e/x", "/api/v1/namespaces/%00/pods",
    "/api/v1/%ff", "/a%zz",
)  # fmt: skip
METHODS = (
    "GET",
    "GET",
    "GET",
    "POST",
    "POST",
    "PUT",
    "PATCH",
    "PATCH",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "BREW",
    "get",
)
PARAMETERS = (
    "limit", "continue", "watch", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "fieldManager", "fieldValidation", "dryRun",
    "force",
    "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty", "includeObject", "container",
    "tailLines",
    "sinceTime", "sinceSeconds", "limitBytes", "timestamps", "follow", "previous", "command", "stdin", "tty",
    "ports", "verbose", "exclude", "é", "",
)  # fmt: skip
VALUES = (
    "", "0", "1", "-1", "true", "false", "TRUE", "1.5", "9999999999", "9223372036854775807",
    "9223372036854775808", LARGE_NUMBER, "abc",
    "NotOlderThan", "Exact", "All", "Strict", "Foreground", "Orphan", "Table", "Metadata", "metadata.name=x",
    "spec.nodeName!=n",
    "status.phase=Running,metadata.namespace=fuzz", "metadata.name in (x)", "a=b", "a==b", "a!=b", "!a",
    "a in (b,c)", "a notin (b)", "a in (", "((((", ",,,", "=",
    "a=b," * 500, "a in (" + "b," * 2000 + "b)", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4In0",
    "bnVsbA", "W10", "MQ", "%00", "é", "\x00", "\u2028",
    "2026-01-01T00:00:00Z", "9999-99-99T00:00:00Z", "a" * 5000,
)  # fmt: skip
NUMERIC = ("limit", "resourceVersion", "timeoutSeconds", "gracePeriodSeconds", "tailLines", "sinceSeconds")
NUMBERS = ("0", "1", "2", "-1", "500", "9223372036854775808", LARGE_NUMBER, "1.5", "01", "+1", " 1", "\u0665")
CONTENT_TYPES = (
    "application/json", "application/json", "application/json; charset=utf-8", "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "text/plain", "", "application/cbor", ";;;",
    "application/json;stream=watch", "é", "a" * 2000,
)  # fmt: skip
PATCH_TYPES = CONTENT_TYPES[5:9]
ACCEPTS = (
    "", "*/*", "application/json", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1",
    "text/html", ",;=", ";q=", "*/*;q=nan",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2",
    "application/vnd.kubernetes.protobuf", "a/b," * 500, "application/json;q=1e999",
)  # fmt: skip
HEADERS = (
    ("Accept-Encoding", ("gzip", "br", "", "gzip;q=0")),
    ("Impersonate-User", ("alice", "", "é", "system:admin", "a" * 3000)),
    ("Impersonate-Group", ("system:masters", "", "a,b")),
    ("Impersonate-Extra-a", ("b", "")),
    ("Impersonate-Uid", ("u", "")),
    ("Authorization", (
        "Bearer x", "Bearer", "Basic YTpi", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + "a" * 9000,
        "é",
    )),
    ("Connection", ("close", "upgrade", "keep-alive, upgrade")),
    ("Upgrade", ("websocket", "SPDY/3.1", "x")),
    ("Sec-WebSocket-Key", ("x", "dGhlIHNhbXBsZSBub25jZQ==", "")),
    ("Sec-WebSocket-Version", ("13", "1")),
    ("Sec-WebSocket-Protocol", ("v5.channel.k8s.io", "v4.channel.k8s.io, x", "base64url.bearer.authorization.k8s.io.")),
    ("Expect", ("100-continue", "x")),
    ("User-Agent", ("kubectl/v1.36", "", "a" * 3000, "é")),
    ("X-Forwarded-For", ("1.2.3.4",)),
    ("Cookie", ("a=b",)),
    ("Range", ("bytes=0-1",)),
    ("If-None-Match", ("*", '"x"')),
    ("Content-Encoding", ("gzip", "identity")),
    ("X-Stream-Protocol-Version", ("v4.channel.k8s.io", "portforward.k8s.io")),
)  # fmt: skip
MALFORMED = (
    b"\x00", b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost h\r\n\r\n", b"GET / HTTP/1.1\r\nHost: h\r\n : x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nA: b\x00c\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: abc\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;" + b"a" * 9000 + b"\r\nabc\r\n0\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", b"GET * HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET http://x/api HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET http://x HTTP/1.1\r\nHost: h\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /api\xff HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /api HTTP/1.0\r\n\r\n", b"GET /api HTTP/1.1\nHost: h\n\n", b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET ?x HTTP/1.1\r\nHost: h\r\n\r\n",
)  # fmt: skip


class HttpCases:
    """Requests as bytes; the same seed gives the same requests."""

    def __init__(self, random: Random, token: str) -> None:
        self._random = random
        self._token = token

    def next(self) -> bytes:
        chance = self._random.random()
        if chance < 0.1:
            return self._random.choice(MALFORMED)
        request = self._request()
        if chance < 0.2:
            return self._damaged(request)
        if chance < 0.25:
            return request + self._request()  # pipelined
        return request

    def _request(self) -> bytes:
        path = self._random.choice(PATHS)
        method = self._random.choice(METHODS if self._random.random() < 0.3 else _likely_methods(path))
        names = self._random.choices(PARAMETERS, k=self._random.choice([0, 0, 1, 1, 2, 3, 5]))
        query = "&".join(f"{quote(name)}={quote(self._value(name))}" for name in names)
        if self._random.random() < 0.05:
            query += self._random.choice(["&", "&&=&", "%", "%zz", "a=%ff", "=" * 100, "a&" * 2000])
        target = f"{path}?{query}" if query else path
        content_type = self._content_type(method)
        body = self._body(content_type) if method in ("POST", "PUT", "PATCH", "DELETE") else b""
        lines = [f"{method} {target} HTTP/1.1".encode("utf-8", "surrogateescape"), b"Host: h"]
        headers = [
            ("Content-Type", content_type),
            ("Accept", self._random.choice(ACCEPTS if self._random.random() < 0.5 else ["*/*"])),
        ]
        chosen = self._random.choices(HEADERS, k=self._random.choice([0, 0, 0, 1, 2, 3]))
        headers += [(name, self._random.choice(values)) for name, values in chosen]
        if not any(name == "Authorization" for name, _ in headers):
            headers.append(("Authorization", f"Bearer {self._token}"))
        lines += [f"{name}: {value}".encode() for name, value in headers]
        return self._framed(lines, body)

    def _value(self, parameter: str) -> str:
        numeric = parameter in NUMERIC and self._random.random() < 0.6
        return self._random.choice(NUMBERS if numeric else VALUES)

    def _content_type(self, method: str) -> str:
        if self._random.random() < 0.4:
            return self._random.choice(CONTENT_TYPES)
        return self._random.choice(PATCH_TYPES) if method == "PATCH" else "application/json"

    def _framed(self, lines: list[bytes], body: bytes) -> bytes:
        if not body:
            return b"\r\n".join([*lines, b"", b""])
        if self._random.random() < 0.3:
            lines.append(b"Transfer-Encoding: chunked")
            return b"\r\n".join([*lines, b"", self._chunked(body)])
        lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join([*lines, b"", body])

    def _chunked(self, body: bytes) -> bytes:
        size = self._random.choice([1, 7, 100, 1 << 20])
        if len(body) / size > 2000:
            size = 1 << 20
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        trailer = self._random.choice([b"", b"", b"X-Trailer: a\r\n", b"Content-Length: 5\r\n"])
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"

    def _damaged(self, request: bytes) -> bytes:
        damaged = bytearray(request)
        for _ in range(self._random.randint(1, 4)):
            place = self._random.randrange(len(damaged))
            match self._random.randrange(3):
                case 0:
                    damaged[place] = self._random.randrange(256)
                case 1:
                    del damaged[place : place + self._random.randint(1, 20)]
                case _:
                    damaged[place:place] = bytes(self._random.choices(b'\r\n :;,%\x00\xff{}[]"', k=3))
            if not damaged:
                return b"\r\n"
        return bytes(damaged)

    def _body(self, content_type: str) -> bytes:
        return self._random.choice(BODIES)(self._random, content_type)


def _likely_methods(path: str) -> tuple[str, ...]:
    if not path.startswith(("/api/v1/", "/apis/")):
        return ("GET",)
    is_object = path.endswith("/x") or "/x/" in path
    return (
        ("GET", "PUT", "PATCH", "PATCH", "DELETE", "POST") if is_object else ("GET", "GET", "POST", "DELETE")
    )


def _object(random: Random, content_type: str) -> bytes:
    metadata = {
        "name": "x",
        "labels": {"a": random.choice(SCALARS)},
        "resourceVersion": random.choice(["", "1", LARGE_NUMBER, "x"]),
    }
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return json.dumps({**manifest, "data": {"a": random.choice(SCALARS)}}).encode()


def _operations(random: Random, content_type: str) -> bytes:
    names = ["add", "remove", "replace", "test", "move", "copy", "x"]
    paths = [
        "",
        "/",
        "/data",
        "/data/a",
        "/metadata/name",
        "/metadata/labels/-",
        "/data/0",
        "x",
        "/~2",
        "/" + LARGE_NUMBER,
        "/a" * 1000,
    ]
    operations = [
        {
            "op": random.choice(names),
            "path": random.choice(paths),
            "from": random.choice(paths),
            "value": random.choice(SCALARS),
        }
        for _ in range(random.choice([0, 1, 3, 30]))
    ]
    return json.dumps(operations).encode()


def _duplicates(random: Random, content_type: str) -> bytes:
    return b"{" + b",".join(b'"k%d":1' % (i % 500) for i in range(2000)) + b"}"


def _nested(random: Random, content_type: str) -> bytes:
    depth = random.choice([50, 127, 128, 129, 250, 1000, 5000, 40_000])
    opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"- ", b""), (b"{a: ", b"}")])
    return opening * depth + b"1" + closing * depth


def _protobuf(random: Random, content_type: str) -> bytes:
    return b"k8s\x00" + bytes(random.choices(range(256), k=random.choice([0, 5, 50, 500])))


def _yaml(random: Random, content_type: str) -> bytes:
    return random.choice([
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", b"a: &a {b: 1}\nc: {<<: *a}\n", b"&a a: *a\n",
        b"a: !!python/object:os.system x\n", b"%TAG ! x\n---\na: b\n",
        b"a: 1\na: 2\n", b"---\na: 1\n---\nb: 2\n", b"a: \x00\n", b"a: .inf\n", b"? [a]\n: b\n",
        b"a: " + b"9" * 5000, b"\xef\xbb\xbfa: b\n", b"a: |\n  b\n",
    ])  # fmt: skip


REVIEW_FIELDS = (
    "user",
    "groups",
    "extra",
    "uid",
    "token",
    "audiences",
    "namespace",
    "resourceAttributes",
    "replicas",
)
SMALL = (b"{}", b"[]", b"null", b"1", b'"x"', b"{", b"true", b"\xff\xfe", b"{}" * 9)


def _review(random: Random) -> bytes:
    return json.dumps({"spec": {name: random.choice(SCALARS) for name in REVIEW_FIELDS}}).encode()


BODIES: tuple[Callable[[Random, str], bytes], ...] = (
    _object,
    _object,
    _object,
    _operations,
    _duplicates,
    _nested,
    _protobuf,
    _yaml,
    lambda random, content_type: b"",
    lambda random,
    content_type: _review(random),
    lambda random, content_type: bytes(random.choices(range(256), k=random.choice([1, 20, 300]))),
    lambda random,
    content_type: random.choice(SMALL),
    lambda random, content_type: gzip.compress(b"{}", mtime=0),
    lambda random, content_type: b'{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"}}',
    lambda random, content_type: b'{"spec":{"' + b"a" * random.choice([10, 200_000]) + b'":1}}',
)  # fmt: skip

"""Who gets in: one-time links, tokens and proxies, and what another site can do."""

import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import UserCluster
from volcano.dashboard.links import VALID_SECONDS, LinkTokens, new_key, new_token
from volcano.dashboard.login import login_page, safe_target
from volcano.dashboard.options import Authentication

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_a_link_works_once() -> None:
    key = new_key()
    tokens, token = LinkTokens(key), new_token(key, 1000.0)
    assert tokens.redeem(token, 1001.0)
    assert not tokens.redeem(token, 1002.0)


def test_a_link_works_for_ten_minutes() -> None:
    key = new_key()
    token = new_token(key, 1000.0)
    assert not LinkTokens(key).redeem(token, 1001.0 + VALID_SECONDS)
    assert LinkTokens(key).redeem(token, 999.0 + VALID_SECONDS)


@pytest.mark.parametrize("token", ["", ".", "..", "9999999999.x.", "9999999999.nonce.0000", "é.ü.ß"])
def test_a_link_with_another_signature_is_rejected(token: str) -> None:
    assert not LinkTokens(new_key()).redeem(token, 0.0)
    assert not LinkTokens(new_key()).redeem(new_token(new_key(), 0.0), 0.0)


@pytest.mark.parametrize("authentication", Authentication)
def test_each_way_to_log_in_has_a_page_that_explains_it(authentication: Authentication) -> None:
    explained = {
        Authentication.LINK: "volcano dashboard --link",
        Authentication.TOKEN: "Bearer token of the API server",
        Authentication.PROXY: "You log in at the proxy",
    }
    page = login_page(authentication)
    assert page.count("<h1>") == 1
    assert [each for each, text in explained.items() if text in page] == [authentication]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/jobs?phase=Pending", "/jobs?phase=Pending"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_this_dashboard_only(target: str, expected: str) -> None:
    assert safe_target(target) == expected


@pytest.mark.slow
def test_a_link_opens_the_dashboard_and_leaves_the_address(page: "Page") -> None:
    assert "#" not in page.url
    page.go_back()
    assert "#" not in page.url


@pytest.mark.slow
def test_a_used_link_says_how_to_get_another(browser: "Browser", cluster: UserCluster) -> None:
    link = cluster.link()
    for expected in ("", "volcano dashboard --link"):
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        if expected:
            page.get_by_role("alert").get_by_text(expected).wait_for()
        else:
            page.wait_for_url(lambda url: "/login" not in url)
        context.close()


@pytest.mark.slow
def test_pages_are_shown_only_after_a_login(cluster: UserCluster) -> None:
    url = cluster.link().partition("/login")[0]
    assert status(f"{url}/jobs") == 401
    assert status(f"{url}/_nicegui_ws/socket.io/?EIO=4&transport=polling") == 401


@pytest.mark.slow
def test_a_request_of_another_site_is_rejected(cluster: UserCluster) -> None:
    url, _, token = cluster.link().partition("/login#")
    evil = {"Origin": "https://evil.example", "Content-Type": "application/json"}
    assert status(f"{url}/login", b'{"token": "%s"}' % token.encode(), evil) == 403
    assert status(f"{url}/login", b'{"token": "%s"}' % token.encode()) == 403, "no origin"
    assert status(f"{url}/logout", b"{}", evil) == 403
    assert status(f"{url}/login", headers={"Host": "evil.example"}) == 403
    assert status(f"{url}/login", b'{"token": "%s"}' % token.encode(), {**evil, "Origin": url}) == 200


@pytest.mark.slow
def test_answers_forbid_other_origins(cluster: UserCluster) -> None:
    url = cluster.link().partition("/login")[0]
    with urllib.request.urlopen(f"{url}/login") as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "http" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.slow
def test_no_token_is_in_the_log(page: "Page", cluster: UserCluster) -> None:
    page.goto("/jobs")
    time.sleep(0.5)
    log = next(cluster.home.rglob("volcano.log")).read_text()
    assert "login#" not in log
    assert "Authorization" not in log


def status(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> int:
    request = urllib.request.Request(url, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

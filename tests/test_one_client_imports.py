# SPDX-License-Identifier: Apache-2.0
"""The package imports nothing to send requests with but httpx, and that where it is listed here."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

import oras.auth.base
import oras.provider
import pytest

from ocibridge.stores.registry import RegistryClient

from .test_architecture import module_of, sources

SENDING = (
    "_socket",
    "aiohttp",
    "asyncio",
    "ftplib",
    "h11",
    "h2",
    "http",
    "httptools",
    "pycurl",
    "requests",
    "socket",
    "socketserver",
    "urllib.request",
    "urllib3",
    "websockets",
    "wsproto",
    "xmlrpc",
)
"""Modules, with all below them, that requests can be sent with, or that parse the responses."""

REGISTRY = "stores.registry"
ALLOWED = {
    (f"{REGISTRY}.client", "requests"): "`Response` and `Request`, which the methods of the stock client return",
    (f"{REGISTRY}.errors", "socket.gaierror"): "an exception, for messages",
    (f"{REGISTRY}.proxies", "requests.utils.get_environ_proxies"): "which proxy the environment names for an address",
    (f"{REGISTRY}.proxies", "requests.utils.select_proxy"): "the same",
    (f"{REGISTRY}.retry", "socket.gaierror"): "an exception, to tell whether another try may help",
    (f"{REGISTRY}.transport", "h11"): "an exception of httpcore's parser, which httpcore lets pass",
    (f"{REGISTRY}.transport", "http.cookiejar.CookieJar"): "the jar of an httpx client, which stays empty",
    (f"{REGISTRY}.transport", "http.cookiejar.DefaultCookiePolicy"): "what keeps it empty",
    (f"{REGISTRY}.transport", "socket.SHUT_RDWR"): "a constant, to break a connection of httpcore",
    (f"{REGISTRY}.transport", "socket.socket"): "its method `shutdown`, to break a connection of httpcore",
}
"""What is imported nevertheless, by module, and what for."""

USED = {
    (f"{REGISTRY}.client", "requests"): {"Request", "Response"},
    (f"{REGISTRY}.transport", "h11"): {"LocalProtocolError"},
    (f"{REGISTRY}.transport", "socket"): {"shutdown"},
}
"""Attributes that are used of what could do more."""

CLIENTS = {
    ("io.metering", "httpx.HTTPTransport"): "the same files that cartons link to, where requests are logged",
    (f"{REGISTRY}.transport", "httpx.Client"): "the one client of an origin",
    (f"{REGISTRY}.transport", "httpcore.ConnectionPool"): "its connections",
    ("formats.carton.fetch", "httpx.Client"): "files that a carton links to, on web servers",
    ("mirror.output.metrics", "httpx.stream"): "metrics, to a push gateway",
}
"""Where httpx and httpcore are told to send."""

_HTTPX = {"AsyncClient", "AsyncHTTPTransport", "Client", "HTTPTransport"}
_HTTPX |= {"delete", "get", "head", "options", "patch", "post", "put", "request", "stream"}
_HTTPCORE = {"ConnectionPool", "HTTPConnection", "HTTPProxy", "SOCKSProxy", "request", "stream"}
_CALLS = {f"httpx.{name}" for name in _HTTPX} | {f"httpcore.{name}" for name in _HTTPCORE}


def is_sending(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in SENDING)


def imported(tree: ast.AST) -> Iterator[str]:
    """Everything that a module imports from outside, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "__import__",
            "import_module",
        ):
            yield from (
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("urllib.request", "http.client"):
            yield ast.unparse(node)


def sending(text: str) -> set[str]:
    return {name for name in imported(ast.parse(text)) if is_sending(name)}


def uses(text: str, name: str) -> set[str]:
    """Attributes that are used of a name; `*` stands for the name as a whole."""
    found, bare, tree = set(), 0, ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            found.add(node.attr)
            bare -= 1
        elif isinstance(node, ast.Name) and node.id == name:
            bare += 1
    return found | ({"*"} if bare else set())


def clients(text: str) -> set[str]:
    """Calls by which httpx or httpcore send, or make what does; and what would hide one from this test."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
            found.add(ast.unparse(node.func))
        elif isinstance(node, ast.ImportFrom) and node.module in ("httpx", "httpcore"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & _CALLS
        elif isinstance(node, ast.Import):
            found |= {
                f"{alias.name} as {alias.asname}" for alias in node.names if alias.asname and "http" in alias.name
            }
    return found


def modules() -> dict[str, str]:
    return {module_of(path): path.read_text(encoding="utf-8") for path in sources()}


def test_nothing_is_imported_to_send_with() -> None:
    found = {(module, name) for module, text in modules().items() for name in sending(text)}
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set(), "what is not imported any more needs no leave"


@pytest.mark.parametrize(("module", "name"), USED)
def test_of_what_could_send_only_the_rest_is_used(module: str, name: str) -> None:
    assert uses(modules()[module], name) == USED[module, name]


def test_httpx_is_told_to_send_in_few_places() -> None:
    found = {(module, name) for module, text in modules().items() for name in clients(text)}
    assert found == CLIENTS.keys()


def test_the_stock_client_has_no_way_of_its_own_left() -> None:
    """Whatever uses its session is overridden, and its token backends are not there."""
    users = {
        name
        for name, method in inspect.getmembers(oras.provider.Registry, inspect.isfunction)
        if "self.session." in inspect.getsource(method) and name != "__init__"
    }
    assert users == {"do_request"}
    assert RegistryClient.do_request is not oras.provider.Registry.do_request
    client = RegistryClient("registry.example")
    assert not isinstance(client.auth, oras.auth.base.AuthBackend)
    client.close()
    texts = [text for name, text in modules().items() if name.startswith("stores.registry")]
    ours = {ast.unparse(node) for text in texts for node in ast.walk(ast.parse(text)) if _of_session(node)}
    assert ours == {"self.session.close"}


def _of_session(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "session"


@pytest.mark.parametrize(
    "text",
    [
        "import socket",
        "import socket as s",
        "import http.client",
        "import urllib3.util.retry",
        "from http import client",
        "from http.client import HTTPConnection",
        "from socket import create_connection",
        "from urllib import request",
        "from urllib.request import urlopen",
        "import urllib\nurllib.request.urlopen('x')",
        "def f():\n    import requests",
        "if TYPE_CHECKING:\n    import httptools",
        "from importlib import import_module\nimport_module('socket')",
        "__import__('http.client')",
        "from requests.sessions import Session",
        "import asyncio",
    ],
)
def test_imports_are_seen(text: str) -> None:
    assert sending(text)
    assert not {("stores.registry.http", name) for name in sending(text)} & ALLOWED.keys()


@pytest.mark.parametrize(
    "text",
    [
        "import httpx",
        "from .http import Call",
        "from ..requests import x",
        "from urllib.parse import quote",
        "import ssl",
    ],
)
def test_other_imports_pass(text: str) -> None:
    assert sending(text) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("requests.get('x')", {"get"}),
        ("a: requests.Response\nrequests.Session()", {"Response", "Session"}),
        ("f(requests)", {"*"}),
        ("x = requests\nrequests.Response()", {"*", "Response"}),
    ],
)
def test_uses_are_seen(text: str, found: set[str]) -> None:
    assert uses(text, "requests") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("httpx.get('x')", {"httpx.get"}),
        ("with httpx.Client() as c: pass", {"httpx.Client"}),
        ("from httpx import Client", {"httpx.Client"}),
        ("import httpx as h", {"httpx as h"}),
        ("httpcore.request('GET', 'x')", {"httpcore.request"}),
        ("a: httpx.Client\nhttpx.Response(200)", set()),
    ],
)
def test_clients_are_seen(text: str, found: set[str]) -> None:
    assert clients(text) == found

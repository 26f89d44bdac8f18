# SPDX-License-Identifier: Apache-2.0
"""What the values of options mean, and what reaches the operations."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from ocibridge import settings
from ocibridge.cli import options
from ocibridge.cli.main import build_parser
from ocibridge.cli.values import ROLES, count, key_values, moment, role_rules
from ocibridge.dialects.choices import Compress, Layers
from ocibridge.errors import UsageError
from ocibridge.formats.registry import formats
from ocibridge.model import Role

from .conftest import Run


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("0", "1970-01-01T00:00:00+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31t12:00:00.5z", "2026-01-31T12:00:00.500000+00:00"),
        ("2026-01-31 12:00:00.123456789-05:30", "2026-01-31T12:00:00.123456-05:30"),
    ],
)
def test_times(text: str, iso: str) -> None:
    assert moment(text).isoformat() == iso


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-31", "2026-02-30T00:00:00Z", "2026-01-31T12:00:00", "9" * 12, "9" * 9999, "١٢"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="seconds since 1970"):
        moment(text)


def test_counts() -> None:
    assert count("12") == 12
    for text in ("0", "-1", "1.5", "", "١", "9" * 5000):
        with pytest.raises(argparse.ArgumentTypeError):
            count(text)


def test_annotations() -> None:
    assert key_values(["a=1", "b=", "c=x=y"]) == {"a": "1", "b": "", "c": "x=y"}
    for pairs in (["a"], ["=1"], ["a=1", "a=1"]):
        with pytest.raises(UsageError):
            key_values(pairs)


def test_roles_keep_their_order() -> None:
    assert role_rules(["*.x=doc", "a=b=weight"]) == [("*.x", "doc"), ("a=b", "weight")]
    for pairs in (["x"], ["=doc"], ["x=nothing"]):
        with pytest.raises(UsageError):
            role_rules(pairs)


def actions(command: str) -> dict[str, argparse.Action]:
    commands = next(each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return {action.dest: action for action in commands.choices[command]._actions}


def test_the_words_on_the_command_line_are_those_of_the_library() -> None:
    # They are written down twice, because the library's modules must not be imported for --help.
    assert actions("push")["layers"].choices == tuple(each.value for each in Layers)
    assert actions("push")["compress"].choices == tuple(each.value for each in Compress)
    assert (
        actions("pull")["as_format"].choices
        == settings.PULL_AS
        == tuple(each.name for each in formats() if not each.scheme)
    )
    assert tuple(each.value for each in Role) == ROLES
    assert actions("pull")["zip_method"].choices == settings.ZIP_METHODS
    assert f"default: {settings.CONCURRENCY})" in (actions("push")["concurrency"].help or "")


class Given:
    """Stands in for a verb and keeps its arguments."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs
        raise UsageError("enough")


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> Given:
    given = Given()
    monkeypatch.setattr("ocibridge.operations.push.push", given)
    return given


def test_push_passes_everything_on(run: Run, pushed: Given) -> None:
    run(
        *("push", "src", "localhost/x:v1", "--layers", "raw", "--compress", "zstd", "-a", "k=v", "--created", "0"),
        *("--fetch-links", "--links-host", "a", "--links-host", "b:1", "--concurrency", "7"),
        *("--plain-http", "--insecure", "--ca-file", "ca", "--cert-file", "c", "--key-file", "k"),
        *("--registry-config", "conf"),
    )
    assert pushed.args[:2] == ("src", "localhost/x:v1")
    given = pushed.args[2]
    assert (given.layers, given.compress, given.annotations) == (Layers.RAW, Compress.ZSTD, {"k": "v"})
    assert (given.reading["fetch_links"], given.reading["links_hosts"]) == (True, ["a", "b:1"])
    assert (given.concurrency, given.created.year) == (7, 1970)
    registry = pushed.kwargs["registry"]
    assert (registry.plain_http, registry.insecure, registry.ca_file) == (True, True, Path("ca"))
    assert (registry.cert_file, registry.key_file, registry.registry_config) == (Path("c"), Path("k"), Path("conf"))
    assert (registry.username, registry.password) == (None, None)


def test_without_flags_the_library_decides(run: Run, pushed: Given) -> None:
    run("push", "src", "localhost/x:v1")
    assert pushed.kwargs["registry"] is None
    assert pushed.args[2].concurrency == settings.CONCURRENCY


def test_https_can_be_forced_on_loopback(run: Run, pushed: Given) -> None:
    run("push", "src", "localhost/x:v1", "--no-plain-http")
    assert pushed.kwargs["registry"].plain_http is False


class Input(io.TextIOWrapper):
    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), "utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("data", [b"s3 cret", b"s3 cret\n", b"s3 cret\r\n"])
def test_a_password_from_standard_input(run: Run, pushed: Given, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", Input(data))
    run("push", "src", "localhost/x", "-u", "me", "--password-stdin")
    registry = pushed.kwargs["registry"]
    assert (registry.username, registry.password) == ("me", "s3 cret")


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff", b"x" * (1 << 21)], ids=["none", "empty", "binary", "long"])
def test_no_usable_password_on_standard_input(
    run: Run, pushed: Given, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(data))
    outcome = run("push", "src", "localhost/x", "-u", "me", "--password-stdin")
    assert outcome.status == 2
    assert "password" in outcome.err
    assert not pushed.args


def test_a_terminal_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"me\n", terminal=True))
    monkeypatch.setattr("getpass.getpass", lambda _prompt: "typed")
    given = Given()
    monkeypatch.setattr("ocibridge.operations.login.login", given)
    outcome = run("login", "localhost:1", "--plain-http")
    assert given.args == ("localhost:1", "me", "typed")
    assert given.kwargs["registry"].plain_http is True
    assert given.kwargs["registry"].username is None
    assert outcome.out == ""
    assert outcome.err.startswith("User name: ")


def test_the_password_is_in_no_representation() -> None:
    args = argparse.Namespace(
        plain_http=None, insecure=True, ca_file=None, cert_file=None, key_file=None, registry_config=None,
        username=None, password_stdin=False,
    )  # fmt: skip
    assert "password" not in repr(options.registry_options(args))

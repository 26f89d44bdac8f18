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
from ocibridge.airgap.options import PackOptions, UnpackOptions
from ocibridge.cli.main import build_parser
from ocibridge.dialects.choices import Compress, Layers
from ocibridge.errors import UsageError
from ocibridge.formats.registry import formats
from ocibridge.operations.options import (
    ConvertOptions,
    CopyOptions,
    InspectOptions,
    PullOptions,
    PushOptions,
    SourceOptions,
    TargetOptions,
    VerifyOptions,
)
from ocibridge.options import Options, fields_of
from ocibridge.stores.registry import RegistryOptions

from .conftest import Run


def flags(command: str) -> set[str]:
    commands = next(each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return {flag for action in commands.choices[command]._actions for flag in action.option_strings}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("push", PushOptions),
        ("pull", PullOptions),
        ("convert", ConvertOptions),
        ("copy", CopyOptions),
        ("copy", PackOptions),
        ("copy", UnpackOptions),
        ("inspect", InspectOptions),
        ("verify", VerifyOptions),
    ],
)
def test_every_option_is_a_flag(command: str, kind: type[Options]) -> None:
    found = flags(command)
    wanted = {flag for said in fields_of(kind) for flag in said.flags}
    for each in formats():
        if issubclass(kind, SourceOptions):
            wanted |= {flag for said in fields_of(each.read_options) for flag in said.flags}
        if issubclass(kind, TargetOptions):
            wanted |= {flag for said in fields_of(each.write_options) for flag in said.flags}
    assert wanted <= found
    assert {"--ca-file", "--username", "-u", "--no-plain-http"} <= found


def test_a_flag_of_several_formats_has_the_choices_of_all() -> None:
    commands = next(each for each in build_parser("pull")._actions if isinstance(each, argparse._SubParsersAction))
    (method,) = [each for each in commands.choices["pull"]._actions if "--zip-method" in each.option_strings]
    assert method.choices == ("stored", "deflate", "zstd")


def test_options_of_another_format_are_refused(run: Run, carton: Path, tmp_path: Path) -> None:
    outcome = run("push", carton, f"oci:{tmp_path}/layout", "--strip-from")
    assert outcome.status == 2
    assert "--strip-from is for models of Ollama" in outcome.err


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


def test_push_passes_everything_on(run: Run, pushed: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "c", "k", "conf"):
        Path(name).touch()
    run(
        *("push", "src", "localhost/x:v1", "--layers", "raw", "--compress", "zstd", "-a", "k=v", "--created", "0"),
        *("--fetch-links", "--links-host", "a", "--links-host", "b:1", "--concurrency", "7"),
        *("--plain-http", "--insecure", "--ca-file", "ca", "--cert-file", "c", "--key-file", "k"),
        *("--registry-config", "conf", "--bandwidth", "1MiB/s", "--retries", "2", "--timeout", "7"),
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
    assert (registry.bandwidth, registry.retries.attempts, registry.timeouts.read) == (1 << 20, 3, 7)


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
    assert "s3cret" not in repr(RegistryOptions(username="me", password="s3cret"))

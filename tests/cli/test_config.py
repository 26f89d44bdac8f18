# SPDX-License-Identifier: Apache-2.0
"""`ocibridge.toml`: what it sets, what wins, what is refused, and that the file of a project can do no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ocibridge.cli.configfile import PROJECT, flags_of
from ocibridge.cli.main import build_parser
from ocibridge.errors import StoreError

from ..registry import TLS, RegistryServer
from .conftest import Run


class Files:
    """The user's file and that of a project."""

    def __init__(self, home: Path) -> None:
        self.user = home / ".config" / "ocibridge" / "ocibridge.toml"
        self.folder = home / "work" / "project" / "below"
        self.project = home / "work" / "project" / "ocibridge.toml"
        self.user.parent.mkdir(parents=True)
        self.folder.mkdir(parents=True)


@pytest.fixture
def files(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    found = Files(isolated)
    monkeypatch.chdir(found.folder)
    return found


def layer_of(run: Run, carton: Path, *flags: str) -> str:
    """The encoding of the weights that a push makes."""
    outcome = run("push", carton, "oci:layout:v1", "--json", *flags)
    assert outcome.status == 0, outcome.err
    types = [str(each["mediaType"]) for each in json.loads(outcome.out)["layers"]]
    return types[-1].rpartition(".")[2]


def test_the_project_wins_over_the_user_and_flags_over_both(run: Run, files: Files, carton: Path) -> None:
    assert layer_of(run, carton) == "tar"
    files.user.write_text('[push]\nlayers = "raw-files"\n')
    assert layer_of(run, carton) == "raw"
    files.project.write_text('[defaults]\nlayers = "tar"\ncompress = "gzip"\n')
    assert layer_of(run, carton) == "tar+gzip"
    assert layer_of(run, carton, "--compress", "none") == "tar"


def test_the_variable_names_the_only_file(
    run: Run, files: Files, carton: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.user.write_text('[push]\nlayers = "raw"\n')
    monkeypatch.setenv("OCIBRIDGE_CONFIG", "")
    assert layer_of(run, carton) == "tar"
    other = files.folder / "other.toml"
    other.write_text('[push]\ncompress = "zstd"\n')
    monkeypatch.setenv("OCIBRIDGE_CONFIG", str(other))
    assert layer_of(run, carton) == "tar+zstd"
    monkeypatch.setenv("OCIBRIDGE_CONFIG", "nope.toml")
    outcome = run("inspect", carton)
    assert (outcome.status, outcome.err) == (
        1,
        "ocibridge: error: cannot read nope.toml: no such file or directory; check the path\n",
    )


def test_a_project_ends_at_the_repository_and_below_home(run: Run, files: Files, isolated: Path, carton: Path) -> None:
    (isolated / "ocibridge.toml").write_text("not toml")
    assert layer_of(run, carton) == "tar"
    files.project.write_text('[push]\nlayers = "raw"\n')
    (files.folder / ".git").mkdir()
    assert layer_of(run, carton) == "tar"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[push]\nlayer = "raw"', "ocibridge.toml:2: [push] has no key layer; did you mean layers?"),
        ('[push]\n\nlayers = "rwa"', "ocibridge.toml:3: layers cannot be 'rwa'; did you mean raw?"),
        ("[push]\nlayers = true", "ocibridge.toml:2: layers is one value"),
        ("[push]\nexact = 1", "ocibridge.toml:2: exact is true or false, and 1 is neither"),
        ("[defaults]\nconcurrency = 0", "concurrency: '0' is no whole number of 1 or more"),
        ("[push]\nannotation = ['novalue']", "annotation: the annotation 'novalue' is malformed"),
        ('[defaults]\nxyzzy = "raw"', "ocibridge.toml:2: [defaults] has no key xyzzy"),
        ("[pusch]\nlayers = 'raw'", "ocibridge.toml:1: there is no command pusch; did you mean [push]?"),
        ("layers = 'raw'", "ocibridge.toml:1: layers is in no table; write it into [defaults]"),
        ("[defaults]\npassword = 'x'", "a password is not for a configuration file; run 'ocibridge login'"),
        ("[defaults]\npassword-stdin = true", "a password is not for a configuration file; run 'ocibridge login'"),
        ("[registries.'a:1']\npassword = 'x'", "a password is not for a configuration file; run 'ocibridge login'"),
        ("[registries.'a:1']\ninsecre = true", "has no key insecre; did you mean insecure?"),
        ("[registries.'a:1']\nca-file = 'nope.pem'", "/.config/ocibridge/nope.pem"),
        ("[registries.'a:1']\nproxy = 'http://me:x@p:1'", "a proxy with a password is for HTTPS_PROXY"),
        ("[registries]\na = 'x'", 'a registry is a table; write [registries."a"]'),
        ("[aliases]\nlocalhost = 'a:1'", "'localhost' is no alias, as it could be a host or a scheme"),
        ("[aliases]\n'ghcr.io' = 'a:1'", "'ghcr.io' is no alias, as it could be a host or a scheme"),
        ("[aliases]\nlab = 'https://a/b'", "'https://a/b' is no place in a registry; write HOST[:PORT][/PREFIX]"),
        ("[push", "is no TOML"),
    ],
)
def test_mistakes_name_file_and_line(run: Run, files: Files, text: str, said: str) -> None:
    files.user.write_text(text)
    outcome = run("push", "a", "oci:b")
    assert outcome.status == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert run("config").err == outcome.err
    assert run("push", "--help").status == run("--version").status == run("version").status == 0


@pytest.mark.parametrize(
    "text",
    [
        "[defaults]\ninsecure = true",
        "[push]\nca-file = 'x.pem'",
        "[push]\nregistry-config = 'x'",
        "[defaults]\nproxy = 'http://a'",
        "[defaults]\nplain-http = true",
        "[push]\nfetch-links = true",
        "[mirror.run]\npush-gateway = 'http://a'",
        "[registries.'a:1']\ninsecure = true",
        "[registries.'a:1']\nbandwidth = '1MiB'",
        "[aliases]\nlab = 'evil.example'",
    ],
)
def test_the_file_of_a_project_decides_nothing_about_trust(run: Run, files: Files, text: str) -> None:
    files.project.write_text(f"{text}\n")
    (files.folder / "x.pem").touch()
    (files.project.parent / "x.pem").touch()
    (files.project.parent / "x").touch()
    outcome = run("mirror", "run", "job.yaml") if "mirror" in text else run("push", "a", "oci:b")
    assert outcome.status == 2
    assert "is not for the file of a project" in outcome.err
    assert str(files.user) in outcome.err


def test_what_a_project_may_set_is_harmless() -> None:
    """A new flag is not for projects before somebody has thought about it; the list names only flags that there are."""
    assert {f"--{name}" for name in PROJECT} - set(flags_of(build_parser())) <= {"--include", "--exclude"}
    words = ("force", "overwrite", "delete", "file", "config", "proxy", "http", "secure", "user", "link", "gateway")
    assert not [name for name in PROJECT if any(word in name for word in words)]


def test_an_alias_is_a_place(run: Run, files: Files, registry: RegistryServer, repository: str, carton: Path) -> None:
    files.user.write_text(f'[aliases]\nlab = "{registry.host}/{repository}"\n')
    pushed = run("push", carton, "lab/digits:v1", "-v")
    assert f"{registry.host}/{repository}/digits@sha256:" in pushed.out
    assert f"ocibridge: lab/digits:v1 is {registry.host}/{repository}/digits:v1, by an alias\n" in pushed.err
    assert run("copy", "lab/digits:v1", "lab/other:v1", "-q").out.startswith(f"{registry.host}/{repository}/other@")
    assert run("pull", "lab/digits:v1", "lab/digits", "--as", "folder").status == 0, "a path, not a reference"
    assert run("inspect", "lab/digits").status == 0


def test_options_of_registries_are_for_these(
    run: Run, files: Files, tls_registry: RegistryServer, carton: Path
) -> None:
    target = f"{tls_registry.host}/config/digits:v1"
    assert run("push", carton, target, "--retries", "0").status == 1
    (files.user.parent / "ca.pem").write_bytes((TLS / "ca.pem").read_bytes())
    files.user.write_text(f'[registries."{tls_registry.host}"]\nca-file = "ca.pem"\n')
    assert run("push", carton, target).status == 0
    assert run("copy", target, "oci:layout", "-q").status == 0
    assert run("copy", target, f"{tls_registry.host}/config/other:v1", "--from-insecure", "-q").status == 0


def test_config_shows_every_value_and_its_place(run: Run, files: Files) -> None:
    assert run("config").out == f"there is no configuration file; yours is {files.user}\n"
    files.user.write_text('[aliases]\nlab = "a.example/b"\n[registries."a.example"]\nretries = 1\n')
    files.project.write_text('[push]\nalso = ["image"]\n')
    assert [line.split() for line in run("config").out.splitlines()] == [
        ["aliases.lab", '"a.example/b"', f"{files.user}:2"],
        ['registries."a.example".retries', "1", f"{files.user}:4"],
        ["push.also", '["image"]', f"{files.project}:2"],
    ]


def test_without_a_file_nothing_is_imported_for_one() -> None:
    program = (
        "import sys; from ocibridge.cli.main import main; import ocibridge.operations.push as operations\n"
        "def fail(*_, **__): raise SystemExit(0)\n"
        "operations.push = fail; main(['push', 'a', 'oci:b']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not {"ocibridge.cli.configfile", "tomllib", "tomli"} & set(done.stdout.split())


def test_flags_of_a_file_are_those_of_the_command(run: Run, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def inspect(_: object, options: object, *, registry: object) -> None:
        seen.append(registry)
        raise StoreError("enough")

    monkeypatch.setattr("ocibridge.operations.inspect.inspect", inspect)
    files.user.write_text('[defaults]\nlayers = "raw"\nconcurrency = 3\ntimeout = 5\nplain-http = true\n')
    run("inspect", "a:1/b")
    run("inspect", "a:1/b", "--timeout", "6", "--no-plain-http")
    assert [(each.timeouts.read, each.plain_http) for each in seen] == [(5, True), (6, False)]  # type: ignore[attr-defined]

# SPDX-License-Identifier: Apache-2.0
"""The commands, from the words to what is printed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ocibridge.about import heading
from ocibridge.cli.inspect import described
from ocibridge.cli.push import summary
from ocibridge.errors import AuthenticationError
from ocibridge.operations.reports import (
    FileReport,
    InfoReport,
    InspectReport,
    LoginReport,
    LogoutReport,
    PullReport,
    PushedLayer,
    PushReport,
    VerifyReport,
)

from .conftest import Run

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
IDENTITY = "carton:09b744842c693b5c529bece22e17ec602403a2ed8dc786b4fa7e57e038062471"


def test_there_and_back(run: Run, carton: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/layout:v1"
    pushed = run("push", carton, target)
    assert pushed.status == 0
    label, reference = pushed.out.split()
    assert label == "artifact"
    assert reference.startswith(f"oci:{tmp_path}/layout@sha256:")
    assert pushed.err.startswith(f"ocibridge: pushed {IDENTITY} as {target}: 6 layers uploaded (")
    again = run("push", carton, target)
    assert again.out == pushed.out
    assert ": 6 layers skipped (" in again.err

    copy = tmp_path / "copy.carton"
    pulled = run("pull", reference, copy, "--zip-method", "deflate")
    assert (pulled.status, pulled.out) == (0, reference + "\n")
    assert f"pulled {IDENTITY} to {copy} (carton): 15 files" in pulled.err
    assert run("pull", reference, copy).status == 1
    quiet = run("pull", reference, copy, "--force", "-q")
    assert (quiet.status, quiet.err) == (0, "")

    for subject in (copy, target):
        shown = run("inspect", subject)
        assert (shown.status, shown.err) == (0, "")
        assert any(line.split() == ["identity", IDENTITY] for line in shown.out.splitlines())
        assert "model/model.pt" in shown.out
        assert "model/assets/labels.txt -> ../labels.txt" in shown.out


def test_json_is_one_object_and_nothing_else(run: Run, carton: Path, tmp_path: Path) -> None:
    target = f"oci-archive:{tmp_path}/model.tar:v1"
    pushed = run("push", carton, target, "--json")
    assert (pushed.status, pushed.err) == (0, "")
    report = json.loads(pushed.out)
    assert report["identity"] == IDENTITY
    assert {layer["action"] for layer in report["layers"]} == {"uploaded"}
    for argv in (["inspect", target], ["inspect", carton], ["pull", target, tmp_path / "copy.carton"]):
        outcome = run(*argv, "--json")
        assert (outcome.status, outcome.err) == (0, "")
        assert json.loads(outcome.out)["identity"] == IDENTITY


def test_json_progress_is_on_standard_error(run: Run, carton: Path, tmp_path: Path) -> None:
    outcome = run("push", carton, f"oci:{tmp_path}/layout", "--json", "--progress", "json")
    json.loads(outcome.out)
    events = [json.loads(line)["event"] for line in outcome.err.splitlines()]
    assert events[0] == "plan"
    assert events.count("finish") >= 6


def test_the_summary_counts_each_blob_once() -> None:
    def layer(digest: str, action: str) -> PushedLayer:
        return PushedLayer.model_validate({"digest": digest, "size": 1024, "media_type": "x/y", "action": action})

    report = PushReport(
        source="x", target="r:v1", reference="r@sha256:x", digest=DIGEST, tag="v1", tags=["v1", "v2"], identity=None,
        format="folder",
        layers=[layer(DIGEST, "mounted"), layer(DIGEST, "mounted"), layer(OTHER, "uploaded")], warnings=[],
    )  # fmt: skip
    assert summary(report) == "pushed folder as r:v1,v2: 1 layer uploaded (1.0 KiB), 1 mounted (1.0 KiB)"


def test_warnings_are_lines_on_standard_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    report = PullReport(
        source="r", source_format="folder", source_dialect="cnai", source_identity=None, digest=DIGEST,
        target="d", format="folder", identity=None, file_count=1, size=2,
        warnings=["first\nof two", "second"],
    )  # fmt: skip
    monkeypatch.setattr("ocibridge.operations.pull.pull", lambda *_, **__: report)
    outcome = run("pull", "oci:x", "d", "-q")
    assert outcome.out == "r\n"
    assert outcome.err == "ocibridge: warning: first\\nof two\nocibridge: warning: second\n"
    outcome = run("pull", "oci:x", "d", "--json")
    assert outcome.err == ""
    assert json.loads(outcome.out)["warnings"] == ["first\nof two", "second"]


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✓"), ("ascii", "ok")])
def test_verify_says_what_is_proven(run: Run, monkeypatch: pytest.MonkeyPatch, encoding: str, mark: str) -> None:
    report = VerifyReport(source="x", identity=None, file_count=1, size=1, proven=["it is good"])
    monkeypatch.setattr("ocibridge.operations.verify.verify", lambda *_, **__: report)
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding))
    run("verify", "x.carton")
    assert raw.getvalue().decode(encoding).splitlines() == ["x", f"  {mark} it is good", "verified"]


def test_verify_a_path(run: Run, carton: Path) -> None:
    outcome = run("verify", carton)
    assert outcome.status == 0
    assert outcome.out.endswith("\nverified\n")
    assert IDENTITY in outcome.out


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    report = InspectReport(
        source="x", kind="artifact", format=None, identity=None, origin={}, size=0,
        info=InfoReport(title="\x1b]0;owned\x07", description="one\ntwo", authors=["a", "b"]),
        files=[FileReport(path="w.bin", role="weight", size=None, sha256=None, symlink=None)],
        annotations={"k\x1b": "v", "same": "a, b"},
    )  # fmt: skip
    assert described(report) == [
        "source  x",
        "size    0 B",
        "",
        "metadata",
        r"  title        \x1b]0;owned\x07",
        "  description  one …",
        "  authors      a, b",
        "",
        "annotations",
        r"  k\x1b  v",
        "",
        "files (1)",
        "  role    size  sha256  path",
        "  weight  -     -       w.bin",
    ]


def test_login_and_logout(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    open_to_all = "no credentials were checked: r.example asks for none; those of me are stored\n"
    for proven, extra, printed in (
        (True, [], "logged in to r.example as me\n"),
        (True, ["--json"], None),
        (False, [], open_to_all),
        (False, ["--json"], None),
    ):

        def login(*args: object, _proven: bool = proven, **_: object) -> LoginReport:
            given.append(args)
            return LoginReport(host="r.example", username="me", proven=_proven)

        monkeypatch.setattr("ocibridge.operations.login.login", login)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"secret\n")))
        outcome = run("login", "r.example", "-u", "me", "--password-stdin", *extra)
        assert outcome.status == 0
        told = heading("login") | {"host": "r.example", "username": "me", "proven": proven}
        assert outcome.out == printed or json.loads(outcome.out) == told
    assert given == [("r.example", "me", "secret")] * 4

    for removed, sentence in ((True, "removed the credentials for r.example\n"), (False, "there were no credentials")):
        report = LogoutReport(host="r.example", removed=removed)
        monkeypatch.setattr("ocibridge.operations.login.logout", lambda *_, _report=report, **__: _report)
        assert run("logout", "r.example").out.startswith(sentence)
        assert json.loads(run("logout", "r.example", "--json").out) == json.loads(report.to_json())


def test_a_refused_login_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AuthenticationError("r.example refused the user name or password", hint="check both")

    monkeypatch.setattr("ocibridge.operations.login.login", refuse)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"secret\n")))
    outcome = run("login", "r.example", "-u", "me", "--password-stdin")
    assert outcome.status == 1
    assert outcome.err == "ocibridge: error: r.example refused the user name or password; check both\n"


def test_a_dry_run_sends_nothing(run: Run, carton: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/layout:v1,v2"
    done = run("push", carton, target, "--dry-run", "--also", "image")
    assert (done.status, done.err) == (0, "ocibridge: dry run: nothing was sent\n")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == f"{IDENTITY}: 15 files, 52.3 KiB".split()
    assert ["weight", "model/model.pt", "46.2", "KiB"] in lines
    assert ["application/vnd.cnai.model.weight.v1.tar", "model/model.pt.tar", "48.0", "KiB"] in lines
    assert lines[-3:] == [
        ["target", f"oci:{tmp_path}/layout:v1"],
        ["artifact", "v1,", "v2"],
        ["mountable", "v1-image,", "v2-image"],
    ]
    plan = json.loads(run("push", carton, target, "--dry-run", "--json").out)
    assert (plan["$schema"], plan["tags"]) == ("urn:ocibridge:schema:push-plan", ["v1", "v2"])
    assert not (tmp_path / "layout").exists()

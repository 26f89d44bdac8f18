# SPDX-License-Identifier: Apache-2.0
"""Passwords of a job file are in no message and no representation."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from ocibridge.errors import OcibridgeError
from ocibridge.mirror.jobs.jobfile import JobFile
from ocibridge.mirror.jobs.yamlfile import YamlError, read_yaml

from .jobs import SYNC, load, problem

SECRET = "hunter2-0815"
LOGIN = "creds:\n  - registry: reg.example\n    user: robot\n"


@pytest.mark.parametrize(
    "text",
    [
        LOGIN + f"    pass: [{SECRET}]\n" + SYNC,
        LOGIN + f"    pass: {{{SECRET}: 1}}\n" + SYNC,
        LOGIN + f"    pass: *{SECRET}\n" + SYNC,
        LOGIN + f"    pass: !{SECRET} x\n" + SYNC,
        LOGIN + f"    pass: !{SECRET}!x\n" + SYNC,
        LOGIN + f"    pass: &{SECRET} a\n    x: &{SECRET} b\n" + SYNC,
        LOGIN + f"    pass: @{SECRET}\n" + SYNC,
        LOGIN + f"    pass: '{SECRET}\n" + SYNC,
        LOGIN + f"    pass: '{{{{file \"{SECRET}\"}}}}'\n" + SYNC,
        LOGIN + f"    pass: {SECRET}\n    tls: {SECRET}\n" + SYNC,
        LOGIN + f"    pass: {SECRET}\n    passFile: x\n" + SYNC,
        LOGIN + f"    pass: {SECRET}\n    reqConcurrent: {SECRET}\n" + SYNC,
        LOGIN + f"    pass: {SECRET}\n    clientKey: {SECRET}\n" + SYNC,
        LOGIN + f"    passFile: {SECRET}\n" + SYNC,
        LOGIN.replace("robot", f"a:{SECRET}") + f"    pass: {SECRET}\n" + SYNC,
        f"creds: [{{registry: 'robot:{SECRET}@reg.example'}}]\n" + SYNC,
        f"creds: [{{registry: reg.example, pass: {SECRET}}}]\n" + SYNC,
        f"creds: {SECRET}\n" + SYNC,
        f"creds: [{SECRET}]\n" + SYNC,
        SYNC.replace("reg.example", f"robot:{SECRET}@reg.example"),
        SYNC.replace("reg.example", f"https://robot:{SECRET}@reg.example"),
        f"sync: [{{source: 'robot:{SECRET}@a.example', target: b.example, type: registry}}]\n",
    ],
)
def test_no_message_shows_a_password(text: str, tmp_path: Path) -> None:
    with pytest.raises(OcibridgeError) as caught:
        load(tmp_path, text)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(caught.value)


def test_a_number_as_password_is_not_shown(tmp_path: Path) -> None:
    text = LOGIN + "    pass: 0815\n" + SYNC
    assert problem(tmp_path, text) == "job.yaml:4:11: creds[0].pass: this is a number in YAML; quote it"


def test_no_representation_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCIBRIDGE_TEST_PASS", SECRET)
    job = load(tmp_path, LOGIN + "    pass: '{{env \"OCIBRIDGE_TEST_PASS\"}}'\n" + SYNC)
    options = job.options_for("reg.example")
    assert options.password == SECRET
    written = JobFile.model_validate(read_yaml(job.path).value)
    for each in (job, options, written, written.creds[0]):
        assert SECRET not in repr(each)
        assert SECRET not in str(each)
    assert "robot" not in repr(written)


def test_a_password_in_the_file_itself_is_warned_of(tmp_path: Path) -> None:
    job = load(tmp_path, LOGIN + f"    pass: {SECRET}\n" + SYNC)
    assert job.options_for("reg.example").password == SECRET
    assert job.warnings == (
        f"{tmp_path}/job.yaml:4:11: creds[0].pass: a password is written here for all to read; write "
        "pass: '{{env \"NAME\"}}', or passFile with the name of a file",
    )


@pytest.mark.parametrize(
    ("login", "complaint"),
    [
        ("user: robot", "creds[0]: a login needs both, user and pass; add what is missing, or leave out the other"),
        ("pass: x", "creds[0]: a login needs both, user and pass; add what is missing, or leave out the other"),
        (
            "{user: u, pass: x, passFile: y}",
            "creds[0].passFile: pass and passFile exclude each other; keep one of the two",
        ),
        ("{user: u, pass: ''}", "creds[0].pass: the password is empty; check it"),
        (
            "{user: 'a:b', pass: x}",
            "creds[0].user: the user name is empty, or has a colon or control character; check it",
        ),
        (
            "{user: u, passFile: nowhere}",
            "creds[0].passFile: there is no readable file with one line of text; check the name, which is taken from "
            "the job's folder",
        ),
        (
            "{user: u, passFile: two-lines}",
            "creds[0].passFile: there is no readable file with one line of text; check the name, which is taken from "
            "the job's folder",
        ),
        (
            "{user: u, passFile: bytes}",
            "creds[0].passFile: there is no readable file with one line of text; check the name, which is taken from "
            "the job's folder",
        ),
        ("{user: u, passFile: empty}", "creds[0].passFile: the password is empty; check it"),
        (
            "user: '{{env \"OCIBRIDGE_NOT_SET\"}}'",
            "creds[0].user: the environment variable OCIBRIDGE_NOT_SET is not set; set it, or take it out of the job",
        ),
        (
            "regcert: ca.pem",
            "creds[0].regcert: there is no such file; check the name, which is taken from the job's folder",
        ),
        (
            "regcert: '-----BEGIN CERTIFICATE-----'",
            "creds[0].regcert: the name of a PEM file is wanted, not what is in it; put it into a file",
        ),
        ("clientKey: empty", "creds[0].clientKey: a key needs its certificate; add clientCert"),
        (
            "credHelper: ecr",
            "creds[0].credHelper: credential helpers are read from docker's config.json; enter it there under "
            "credHelpers",
        ),
        ("tls: off", "creds[0].tls: this is not possible here; write one of enabled, insecure, disabled"),
    ],
)
def test_logins_that_are_wrong(login: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "two-lines").write_text("a\nb\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text("\n")
    inner = login.strip("{}") if login.startswith("{user") else login
    text = f"creds: [{{registry: reg.example, {inner}}}]\n" + SYNC
    found = problem(tmp_path, text)
    assert found.split(": ", 1)[1] == complaint


@pytest.mark.parametrize(
    "host",
    ["https://reg.example", "reg.example/x", "reg.example:5000:1", "reg.example:v1", "robot@reg.example", "hub", ""],
)
def test_what_is_no_host(host: str, tmp_path: Path) -> None:
    assert problem(tmp_path, f"creds: [{{registry: '{host}'}}]\n" + SYNC) == (
        "job.yaml:1:20: creds[0].registry: this is no host of a registry; write HOST[:PORT] without https:// and "
        "without a path"
    )


def test_one_registry_twice(tmp_path: Path) -> None:
    text = "creds: [{registry: docker.io}, {registry: index.docker.io}]\n" + SYNC
    assert problem(tmp_path, text) == (
        "job.yaml:1:43: creds[1].registry: an earlier entry of creds is for this registry; keep one of the two"
    )


def test_a_login_in_a_reference_has_its_own_sentence(tmp_path: Path) -> None:
    with pytest.raises(YamlError) as caught:
        load(tmp_path, SYNC.replace("reg.example", f"robot:{SECRET}@reg.example"))
    assert str(caught.value).endswith(
        "sync[0].source: there is something before an '@' that begins no digest; logins belong into creds"
    )

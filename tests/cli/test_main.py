# SPDX-License-Identifier: Apache-2.0
"""Statuses and sentences of everything that goes wrong."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ocibridge.cli.main import COMMANDS, GROUPS, build_parser, main
from ocibridge.cli.output import columns, human_time, printable
from ocibridge.errors import IntegrityError, OcibridgeError, StoreError, UsageError, human_size

from .conftest import Outcome, Run


def one_line(outcome: Outcome) -> str:
    """The only line of standard error, with nothing on standard output."""
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("ocibridge: ")
    return outcome.err.removeprefix("ocibridge: ").rstrip("\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["psuh"], "'ocibridge' has no command 'psuh'; did you mean push? See 'ocibridge --help'"),
        (["mirror"], "'ocibridge mirror' needs one of its commands: run, plan, check; see 'ocibridge mirror --help'"),
        (["volume", "chek"], "'ocibridge volume' has no command 'chek'; did you mean check? See 'ocibridge volume --"),
        (
            ["push", "a", "oci:b", "--layer", "raw"],
            "'ocibridge push' has no option --layer; did you mean --layers? See",
        ),
        (
            ["mirror", "run", "a", "--sahrd=1/2"],
            "has no option --sahrd; did you mean --shard? See 'ocibridge mirror run",
        ),
        (["push", "a", "oci:b", "c"], "'ocibridge push' takes no further argument 'c'; see 'ocibridge push --help'"),
        (["push", "a", "oci:b", "--xyzzy"], "'ocibridge push' has no option --xyzzy; see 'ocibridge push --help'"),
        (["copy", "a:1/b", "a:1/c", "--force"], "--force is for copies into and out of an archive; leave it out"),
        (["push", "only-one"], "the following arguments are required: TARGET"),
        (["push", "a", "oci:b", "--no-such"], "'ocibridge push' has no option --no-such"),
        (
            ["push", "a", "oci:b", "--layers", "zip"],
            "--layers cannot be 'zip'; the choices are tar, raw, raw-files. See",
        ),
        (
            ["push", "a", "oci:b", "--layers", "rwa"],
            "did you mean raw? The choices are tar, raw, raw-files. See 'ocibridge",
        ),
        (["push", "a", "oci:b", "--concurrency", "0"], "'0' is no whole number of 1 or more"),
        (["push", "a", "oci:b", "--created", "yesterday"], "'yesterday' is no time"),
        (["push", "a", "oci:b", "-a", "novalue"], "write --annotation KEY=VALUE"),
        (["push", "a", "oci:b", "-a", "k=1", "-a", "k=2"], "the annotation 'k' is given twice"),
        (["push", "a", "oci:b", "--links-host", "example.org"], "add --fetch-links"),
        (["push", "a", "no-host"], "names no registry host"),
        (["push", "a", "oci:b@sha256:" + "0" * 64], "a push target has a tag, not a digest"),
        (["pull", "a:b:c/d", "x"], "is not valid"),
        (["inspect", "neither"], "'neither' is neither a path that exists nor a reference"),
        (["push", "a", "oci:b", "--password-stdin"], "--password-stdin needs --username"),
        (["push", "a", "oci:b", "-u", "me"], "give it with --password-stdin"),
        (
            ["inspect", "oci:b", "--ca-file", "nope.pem"],
            "argument --ca-file: there is no file nope.pem; see 'ocibridge",
        ),
        (["inspect", "oci:b", "--cert-file", "/"], "argument --cert-file: / is a folder, not a file; see"),
        (
            ["inspect", "oci:b", "--key-file", __file__],
            "--key-file is the key of a client certificate; add --cert-file",
        ),
        (["inspect", "oci:b", "--registry-config", "nope"], "--registry-config: there is no file nope; check the path"),
        (["copy", "oci:b", "oci:c", "--from-ca-file", "nope"], "argument --from-ca-file: there is no file nope"),
        (["copy", "oci:b", "oci:c", "--from-registry-config", "nope"], "--from-registry-config: there is no file nope"),
        (["copy", "oci:b", "oci:c", "--from-key-file", __file__], "--from-key-file is the key of a client certificate"),
        (["completion", "tcsh"], "SHELL cannot be 'tcsh'; the choices are bash, zsh, fish."),
        (["inspect", "x\n\x1b[31my"], r"\n\x1b[31my"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run: Run, argv: list[str], said: str) -> None:
    outcome = run(*argv)
    assert outcome.status == 2
    line = one_line(outcome)
    assert line.startswith("error: ")
    assert said in line
    assert ";" in line


@pytest.mark.parametrize("option", [["-p", "hunter2"], ["-phunter2"], ["--password=hunter2"], ["--password"]])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(run: Run, option: list[str]) -> None:
    outcome = run("login", "localhost:5000", "-u", "me", *option)
    assert outcome.status == 2
    assert "--password-stdin" in one_line(outcome)
    assert "hunter2" not in outcome.err


def test_a_missing_source_is_status_1(run: Run, tmp_path: Path) -> None:
    outcome = run("push", tmp_path / "missing.carton", f"oci:{tmp_path}/layout:v1")
    assert outcome.status == 1
    assert one_line(outcome).endswith("check the path")
    assert not (tmp_path / "layout").exists()


def test_errors_are_json_where_json_was_asked_for(run: Run, tmp_path: Path) -> None:
    outcome = run("inspect", tmp_path / "missing.carton", "--json")
    assert (outcome.status, outcome.out) == (1, "")
    error = json.loads(outcome.err)["error"]
    assert error["type"] == "SourceError"
    assert error["hint"] == "check the path"
    outcome = run("push", "--json")
    assert outcome.status == 2
    assert json.loads(outcome.err)["error"]["type"] == "UsageError"


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (UsageError("bad call", hint="do better"), 2, "error: bad call; do better"),
        (StoreError("the registry said no"), 1, "error: the registry said no"),
        (IntegrityError("two\nlines \x1b[2J", hint="x"), 1, r"error: two\nlines \x1b[2J; x"),
        (OcibridgeError("plain"), 1, "error: plain"),
        (KeyboardInterrupt(), 130, "error: interrupted; run the same command again"),
        (ValueError("odd"), 1, "error: this should not happen: ValueError: odd; please report it"),
        (OSError(5, "I/O error"), 1, "error: this should not happen: OSError: [Errno 5] I/O error; please report"),
        (
            MemoryError(),
            1,
            "error: there is not enough memory; try a higher limit of memory (of the container or job, or",
        ),
        (OSError(12, "Cannot allocate memory"), 1, "error: there is not enough memory; try a higher limit of memory"),
        (RuntimeError("can't start new thread"), 1, "error: there is not enough memory; try a higher limit of memory"),
        (RecursionError("deep"), 1, "error: this should not happen: RecursionError: deep; please report it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_exception_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, raised: BaseException, status: int, said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("ocibridge.operations.inspect.inspect", fail)
    outcome = run("inspect", "x.carton")
    assert outcome.status == status
    assert one_line(outcome).startswith(said)
    assert "Traceback" not in outcome.err


def test_ctrl_c_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ocibridge.operations.push.push", interrupt)
    outcome = run("push", "x.carton", "oci:y", "--json")
    assert outcome.status == 130
    assert "are not sent again" in json.loads(outcome.err)["error"]["hint"]


def test_a_real_ctrl_c() -> None:
    program = (
        "import sys, time; import ocibridge.operations.verify as operations; from ocibridge.cli.main import main\n"
        "def wait(*_, **__): print('ready', flush=True); time.sleep(60)\n"
        "operations.verify = wait; sys.exit(main(['verify', 'x.carton']))"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "ocibridge: error: interrupted; run the same command again\n")


def test_the_traceback_is_there_for_who_asks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCIBRIDGE_DEBUG", "1")
    assert "Traceback" in run("inspect", "/missing.carton").err
    monkeypatch.setenv("OCIBRIDGE_DEBUG", "0")
    assert "Traceback" not in run("inspect", "/missing.carton").err


def test_help(run: Run) -> None:
    outcome = run("--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert run("-h").out == outcome.out == run().out
    for command in ("push", "pull", "inspect", "verify", "login", "logout", "completion", "version"):
        assert command in outcome.out
        text = run(command, "-h").out
        assert text == run(command, "--help").out
        assert f"examples:\n  {'source <(' if command == 'completion' else ''}ocibridge {command}" in text
        assert text.startswith(f"usage: ocibridge {command} [options]")
        assert "-q, --quiet" in text


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_help_fits_the_terminal_and_is_never_wider_than_100_columns(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for argv in (["--help"], *([command, "--help"] for command in COMMANDS), ["mirror", "run", "--help"]):
        text = run(*argv).out.partition("examples:")[0]
        assert max(map(len, text.splitlines())) <= min(columns, 100)


def test_the_list_of_commands_is_in_groups(run: Run) -> None:
    text = run("--help").out
    assert set(re.findall(r"^  ([a-z]+) ", text, re.MULTILINE)) >= {*COMMANDS, "logout"}
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles == [*GROUPS, "general options", "examples"]


def test_every_example_of_a_help_text_can_be_parsed() -> None:
    parser = build_parser()
    found = 0
    for each in _parsers(parser):
        for line in re.findall(r"^  (?:source <\()?ocibridge ([^)|\n]*)", each.epilog or "", re.MULTILINE):
            words = shlex.split(line.partition(" <")[0])
            assert parser.parse_known_args(words)[1] == [], line
            found += 1
    assert found > 20


def test_the_pages_that_help_texts_name_are_there() -> None:
    pages = {
        page for each in _parsers(build_parser()) for page in re.findall(r"^more: (\S+)$", each.epilog or "", re.M)
    }
    assert len(pages) > 5
    assert [page for page in pages if not (Path(__file__).parents[2] / page).is_file()] == []


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def test_version(run: Run) -> None:
    assert run("--version").out == run("version").out
    assert run("version").out.startswith("ocibridge ")


def test_a_reader_that_went_away_is_no_noise(carton: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ocibridge", "inspect", str(carton)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_an_error(carton: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "ocibridge", "inspect", str(carton)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "ocibridge: error: cannot write to standard output: No space left on device\n"


words = st.one_of(
    st.sampled_from(
        ["push", "pull", "inspect", "verify", "logout", "completion", "--json", "-q", "--layers", "raw", "oci:", "--"]
    ),
    st.sampled_from(["oci:x:y", "oci-archive:x", "host.invalid", "-a", "k=v", "--created", "-h", "-"]),
    st.text(st.characters(exclude_characters="\0"), max_size=12),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(argv=st.lists(words, max_size=6))
@example(argv=["inspect", "\udcff"])
def test_no_arguments_make_a_traceback(argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("operations.push", "operations.pull", "operations.verify", "stores.opening"):
        monkeypatch.setattr(f"ocibridge.{module}.open_store", _no_network)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(argv)
    assert status in (0, 1, 2)
    assert "Traceback" not in err.getvalue()
    assert "this should not happen" not in err.getvalue()
    assert err.getvalue().count("\n") <= 1


def _no_network(reference: object, *_: object, **__: object) -> None:
    raise StoreError(f"{reference} is not there")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (2**80, "1048576.0 EiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert human_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.96, "10.0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3700, "1 h 01 min")]
)
def test_times(seconds: float, text: str) -> None:
    assert human_time(seconds) == text


def test_nothing_steers_the_terminal() -> None:
    assert printable("a\x1b[31m\u202eb\x9bé") == r"a\x1b[31m\u202eb\x9bé"
    assert columns([("a", "long"), ("bbb", "x\ny")]) == ["  a    long", r"  bbb  x\ny"]

# SPDX-License-Identifier: Apache-2.0
"""`ocibridge mirror`, as whoever calls it sees it."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ocibridge.io import atomic as files
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.journal import MirrorJournal
from ocibridge.mirror.options import RunOptions
from ocibridge.schemas import schema
from ocibridge.stores.layout import LayoutStore

from ..mirror.artifacts import drop_blob, job, put, tags, whole
from ..mirror.jobs import nonzero
from ..registry import RegistryServer
from .conftest import Run

SILENT = ("--progress", "none")
GO_ON = "ocibridge: error: interrupted; run the same command again to resume\n"


class Site:
    """Two tags in a registry, and a job that keeps a layout in sync with them."""

    def __init__(self, folder: Path, host: str, repository: str) -> None:
        self.folder, self.host, self.repository = folder, host, repository
        self.source = f"{host}/{repository}"
        self.target = f"oci:{folder / 'out'}"
        self.put("v1")
        self.put("v2")
        self.path = self.job()

    def put(self, tag: str, size: int = 1000) -> str:
        """A tag that shares no blob with another one: 1000 bytes, and its config of 10."""
        return put(
            self.host, self.repository, tag, [tag.encode() * (size // 2)], config=b'{"t":"%s"}' % tag.encode()
        ).digest

    def job(self, more: str = "", top: str = "") -> Path:
        return job(
            self.folder / "job.yaml",
            f"""
            version: 1
            {top}
            sync:
              - source: {self.source}
                target: oci:out
                type: repository
                {more}
            """,
        )

    @property
    def there(self) -> list[str]:
        path = self.folder / "out"
        return sorted(LayoutStore(path).tags()) if path.exists() else []


@pytest.fixture
def site(tmp_path: Path, registry: RegistryServer, repository: str) -> Site:
    return Site(tmp_path, registry.host, repository)


def mistake(text: str) -> str:
    return f"ocibridge: error: {text}\n"


def test_plan_run_check(run: Run, site: Site) -> None:
    source, target, path = site.source, site.target, site.path
    plan = run("mirror", "plan", path)
    assert (plan.status, plan.err) == (0, "")
    assert plan.out.splitlines() == [
        f"  copy  {source}:v1  ->  {target}:v1  new (2 blobs, 1010 B)",
        f"  copy  {source}:v2  ->  {target}:v2  new (2 blobs, 1010 B)",
        "plan: 2 to copy (4 blobs, 2.0 KiB)",
    ]
    assert site.there == []
    behind = run("mirror", "check", path)
    assert (behind.status, behind.out.splitlines()[-1]) == (1, "check: 2 to copy (4 blobs, 2.0 KiB)")
    assert behind.err == mistake(f"2 tags are not in sync; run 'ocibridge mirror run {path} --full'")

    done = run("mirror", "run", path, *SILENT)
    assert done.status == 0
    assert done.out.splitlines() == [
        f"copied  {source}:v1  ->  {target}:v1  new (2 blobs, 1010 B)",
        f"copied  {source}:v2  ->  {target}:v2  new (2 blobs, 1010 B)",
    ]
    assert done.err.startswith("ocibridge: mirrored: 2 copied; 2.0 KiB moved, in ")
    assert done.err.count("\n") == 1
    assert site.there == ["v1", "v2"]

    again = run("mirror", "run", path, *SILENT)
    assert (again.status, again.out) == (0, "")
    assert again.err.startswith(
        "ocibridge: mirrored: 2 in sync; 0 B moved, 2.0 KiB did not have to (blobs: 4 there already), in "
    )
    assert run("mirror", "run", path, "-q").err == ""
    assert run("mirror", "plan", path).out == "plan: 0 to copy, 2 in sync\n"
    assert run("mirror", "check", path).out == "check: 0 to copy, 2 in sync\n"


def test_what_a_filter_leaves_out_is_not_called_in_step(run: Run, site: Site) -> None:
    path = site.job("models: {roles: [weight]}")
    assert run("mirror", "plan", path).out == "plan: 0 to copy, 2 left out by the filter for models\n"
    done = run("mirror", "run", path, *SILENT)
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("ocibridge: mirrored: 2 left out by the filter for models; 0 B moved, in ")


def test_as_json(run: Run, site: Site) -> None:
    plan = run("mirror", "plan", site.path, "--json")
    assert (plan.status, plan.err) == (0, "")
    assert json.loads(plan.out).keys() == schema("mirror-plan")["properties"].keys()
    done = run("mirror", "run", site.path, "--json")
    assert (done.status, done.err) == (0, "")
    report = json.loads(done.out)
    assert report.keys() == schema("mirror-report")["properties"].keys()
    assert (nonzero(report["counts"]), report["totals"]["copiedBytes"]) == ({"copied": 2}, 2020)
    assert nonzero(json.loads(run("mirror", "check", site.path, "--json").out)["counts"]) == {"skip": 2}


def test_a_job_from_standard_input(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    text = site.path.read_text().replace("oci:out", site.target)
    site.path.unlink()

    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    for command, status in (("plan", 0), ("check", 1), ("run", 0), ("check", 0)):
        given(text)
        assert run("mirror", command, "-").status == status
    assert site.there == ["v1", "v2"]
    given("version: 2")
    assert run("mirror", "plan", "-").err.startswith("ocibridge: standard input:1:1: ")


def test_a_log_has_a_line_with_the_time_for_each_tag(run: Run, site: Site) -> None:
    lost = list(whole(site.host, site.repository, "v1"))[-1]
    drop_blob(site.host, site.repository, lost)
    done = run("mirror", "run", site.path)
    lines = [line for line in done.err.splitlines() if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ocibridge: ", line)]
    words = sorted(line.split(maxsplit=2)[2] for line in lines)
    assert words[0] == f"copied {site.source}:v2 -> {site.target}:v2 new (2 blobs, 1010 B)"
    assert words[1].startswith(f"failed {site.source}:v1 -> {site.target}:v1 ")
    assert lost in words[1]
    again = run("mirror", "run", site.path).err
    assert f"Z ocibridge: skipped {site.source}:v2 -> {site.target}:v2 in sync" in again


def test_json_lines_while_it_runs(run: Run, site: Site) -> None:
    done = run("mirror", "run", site.path, "--json", "--progress", "json")
    events = [json.loads(line) for line in done.err.splitlines()]
    assert {"plan", "start", "finish", "tag"} <= {event["event"] for event in events}
    assert all(event["time"].endswith("Z") for event in events)
    items = [event["tag"] for event in events if event["event"] == "tag"]
    assert sorted(items, key=lambda each: each["target"]) == json.loads(done.out)["items"]


def test_a_failure_is_the_last_that_is_seen_and_the_status(run: Run, site: Site) -> None:
    lost = list(whole(site.host, site.repository, "v1"))[-1]
    drop_blob(site.host, site.repository, lost)
    done = run("mirror", "run", site.path, *SILENT)
    assert done.status == 1
    assert [line.split()[:2] for line in done.out.splitlines()] == [
        ["copied", f"{site.source}:v2"],
        ["failed", f"{site.source}:v1"],
    ]
    assert lost in done.out
    assert done.err.splitlines()[0].startswith("ocibridge: mirrored: 1 copied, 1 failed; ")
    assert done.err.splitlines()[1:] == [
        "ocibridge: error: 1 of 2 could not be brought in sync; the output says why; "
        "correct that, run the same command again, which resumes these"
    ]
    assert site.there == ["v2"]
    as_json = run("mirror", "run", site.path, "--json")
    assert as_json.status == 1
    assert nonzero(json.loads(as_json.out)["counts"]) == {"failed": 1, "skipped": 1}
    assert json.loads(as_json.err)["error"]["type"] == "StoreError"


def test_a_source_that_is_away(run: Run, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{probe.getsockname()[1]}"
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - {{source: {away}/a, target: oci:out, type: repository}}
        """,
    )
    for command in ("plan", "check"):
        outcome = run("mirror", command, path)
        first, last = outcome.out.splitlines()
        assert outcome.status == 1
        assert first.startswith(f"  failed  {away}/a  ->  oci:{tmp_path}/out  {away}/a: ")
        assert f"{away} refused the connection; check the port" in first
        assert last == f"{command}: 0 to copy, 1 failed"
        assert outcome.err == mistake("1 could not be looked at; the output says why")
        assert run("mirror", command, path, "-q").out.splitlines() == [first]
    done = run("mirror", "run", path, "-q")
    assert done.status == 1
    assert done.out.startswith(f"failed  {away}/a  ->  oci:")
    assert "1 of 1 could not be brought in sync" in done.err


def test_reports_and_metrics(run: Run, site: Site) -> None:
    files = [site.folder / name for name in ("r.json", "r.html", "r.prom")]
    options = ("--report", files[0], "--report", files[1], "--metrics", files[2], "--metrics-name", "nightly")
    done = run("mirror", "run", site.path, "--json", *options)
    assert (done.status, done.err) == (0, "")
    assert json.loads(files[0].read_text()) == json.loads(done.out)
    assert files[1].read_text().startswith("<!doctype html>")
    assert f"{site.target}:v1" in files[1].read_text()
    assert 'ocibridge_mirror_items{mirror="nightly",outcome="copied"} 2.0' in files[2].read_text()


def test_a_report_that_cannot_be_written_costs_nothing_else(
    run: Run, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    no, other, yes = site.folder / "no" / "r.json", site.folder / "no" / "r.html", site.folder / "r.json"
    for command in (("run", "--report"), ("plan", "-o")):
        refused = run("mirror", command[0], site.path, command[1], no)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err == mistake(f"cannot write {no}: no such file or directory; check the path")
    assert site.there == []
    # Where it is found out only afterwards:
    monkeypatch.setattr(files, "check_replaceable", lambda *_: None)
    done = run("mirror", "run", site.path, *SILENT, "--report", no, "--report", other, "--report", yes)
    assert (done.status, done.out.count("copied")) == (1, 2)
    _, first, second = done.err.splitlines()
    assert first.startswith("ocibridge: warning: cannot write")
    assert str(no) in first
    assert second.startswith("ocibridge: error: cannot write")
    assert str(other) in second
    assert nonzero(json.loads(yes.read_text())["counts"]) == {"copied": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--report", "r.txt"], "the report r.txt is neither .json nor .html; name it with one of the two"),
        (["--metrics", "r.txt"], "the node exporter would not read r.txt; choose a name that ends in .prom"),
        (["--push-gateway", "ftp://x"], "the URL of the push gateway cannot be used; write it as http://HOST:9091"),
        (["--metrics-name", "x"], "--metrics-name names what is not asked for; add --metrics or --push-gateway"),
        (
            ["--follow"],
            "no entry of {job} says when it is due; give it an interval or a schedule, or leave out --follow",
        ),
        (
            ["--follow", "--plan", "x"],
            "a plan is executed once, and --follow never ends; leave out one of the two",
        ),
        (
            ["--shard", "2/2"],
            "there is no shard 2 of 2; the index counts from 0, and is less than the number of shards",
        ),
        (
            ["--shard", "/2"],
            "the shard '/2' has no index, and the environment has no JOB_COMPLETION_INDEX; "
            "write INDEX/COUNT, or run it in an Indexed Job",
        ),
        (
            ["--executor", "dask"],
            "a scheduler belongs to the executor dask, and dask needs one; give both, or neither",
        ),
        (
            ["--journal", "x", "--no-journal"],
            "argument --no-journal: not allowed with argument --journal; see 'ocibridge mirror run --help'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_found_out_before_anything_moves(
    run: Run, site: Site, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    outcome = run("mirror", "run", site.path, *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == mistake(message.replace("{job}", str(site.path)))
    assert site.there == []


def test_a_job_that_is_not_there(run: Run, tmp_path: Path) -> None:
    for command in ("run", "plan", "check"):
        outcome = run("mirror", command, tmp_path / "job.yaml")
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.err == mistake(f"cannot read {tmp_path / 'job.yaml'}: no such file or directory; check the path")


@pytest.mark.parametrize("command", ["run", "plan", "check"])
def test_mistakes_in_a_job_have_a_line_each(run: Run, tmp_path: Path, command: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("version: 1\nsync:\n  - {source: a.example/a, target: b.example/b, type: repo}\n")
    one = run("mirror", command, path)
    assert (one.status, one.out) == (1, "")
    assert one.err == mistake(
        f"{path}:3:54: sync[0].type: 'repo' is not possible here; write one of registry, repository, image"
    )
    path.write_text(path.read_text() + "job: 1\n")
    two = run("mirror", command, path)
    assert two.status == 1
    lines = two.err.splitlines()
    assert [line.startswith(f"ocibridge: {path}:") for line in lines] == [True, True, False]
    assert lines[2] == f"ocibridge: error: there are 2 mistakes in {path}; they stand above"
    as_json = json.loads(run("mirror", command, path, "--json").err)["error"]
    assert len(as_json["message"].splitlines()) == 2


def test_what_is_odd_about_a_job_is_said(run: Run, site: Site) -> None:
    path = site.job(top="creds: [{registry: other.example, user: me, pass: written-here}]")
    for command in ("plan", "run", "check"):
        outcome = run("mirror", command, path, "--progress", "none")
        assert outcome.err.startswith(f"ocibridge: warning: {path}:")
        assert "written-here" not in outcome.err
    assert run("mirror", "plan", path, "--json").err == ""


def test_a_plan_is_kept_and_done(run: Run, site: Site) -> None:
    plan = site.folder / "plan.json"
    planned = run("mirror", "plan", site.path, "-o", plan, "--json")
    assert json.loads(plan.read_text()) == json.loads(planned.out)
    site.put("v3")
    done = run("mirror", "run", site.path, "--plan", plan, *SILENT)
    assert (done.status, done.out.count("copied")) == (0, 2)
    assert site.there == ["v1", "v2"]
    site.job("fastCheck: true")
    stale = run("mirror", "run", site.path, "--plan", plan)
    assert stale.status == 2
    assert stale.err == mistake(
        f"the plan was made from another {site.path} than {site.path} is now; "
        "make a new plan with 'ocibridge mirror plan'"
    )
    plan.write_text("{}")
    broken = run("mirror", "run", site.path, "--plan", plan)
    assert broken.status == 1
    assert broken.err.startswith(f"ocibridge: error: {plan} is no plan of a mirror job: ")


def test_shards(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3, 9):
        site.put(f"v{number}")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    one = run("mirror", "run", site.path, "--shard", "/2", "--json")
    assert json.loads(one.out)["shard"] == "1/2"
    assert 0 < len(site.there) < 8
    assert run("mirror", "run", site.path, "--shard", "0/2", "-q").status == 0
    assert len(site.there) == 8


def test_a_journal_in_use_and_one_of_its_own(run: Run, site: Site) -> None:
    path = site.folder / "journal"
    with MirrorJournal(path):
        busy = run("mirror", "run", site.path, "--journal", path)
        assert (busy.status, busy.out) == (1, "")
        assert busy.err == mistake(
            f"the journal {path} is in use: another run of this job is under way; "
            "wait until it ends, or give this one a journal of its own with --journal FILE"
        )
        # Looking does not need the journal for itself.
        assert run("mirror", "plan", site.path, "--journal", path).status == 0
        assert run("mirror", "run", site.path, "--no-journal", "-q").status == 0
    assert run("mirror", "run", site.path, "--journal", path, "-q").status == 0
    assert '"done":' in path.read_text()


def test_a_journal_that_cannot_be_written(run: Run, site: Site) -> None:
    (site.folder / "file").write_text("")
    path = site.folder / "file" / "journal"
    outcome = run("mirror", "run", site.path, "--journal", path)
    assert (outcome.status, outcome.out, site.there) == (1, "", [])
    assert outcome.err.startswith(f"ocibridge: error: the journal cannot be kept: cannot write {path}: ")
    assert outcome.err.endswith("; choose another place with --journal FILE, or do without it: --no-journal\n")


def test_each_job_has_its_own_journal_in_the_cache(run: Run, site: Site, isolated: Path) -> None:
    run("mirror", "run", site.path, "-q")
    run("mirror", "run", site.path, "-q", "--shard", "0/2")
    kept = sorted(path.name for path in (isolated / ".cache" / "ocibridge" / "mirror").iterdir())
    assert len(kept) == 2
    assert kept[0].replace("-0-2.jsonl", ".jsonl") == kept[1]


def test_pruning_is_said(run: Run, registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    source, target = f"{registry.host}/{repository}/a", f"{registry.host}/{repository}/b"
    for number in range(4):
        put(registry.host, f"{repository}/a", f"v{number}", [b"%d" % number])
        put(registry.host, f"{repository}/b", f"v{number}", [b"%d" % number])
    put(registry.host, f"{repository}/b", "gone", [b"gone"])
    for dry, action, done, words in (
        ("true", "keep", "kept", "1 kept that the source does not have"),
        ("false", "prune", "pruned", "1 to prune"),
    ):
        path = job(
            tmp_path / "job.yaml",
            f"""
            version: 1
            sync:
              - source: {source}
                target: {target}
                type: repository
                prune: {{enabled: true, dryRun: {dry}, maxShare: 0.5}}
            """,
        )
        first, last = run("mirror", "plan", path).out.splitlines()
        assert first.split()[:2] == [action, f"{target}:gone"]
        assert last == f"plan: 0 to copy, 4 in sync, {words}"
        outcome = run("mirror", "run", path, *SILENT)
        assert outcome.out.split()[:2] == [done, f"{target}:gone"]
        assert f"4 in sync, 1 {done}; " in outcome.err
    assert "gone" not in tags(registry.host, f"{repository}/b")


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "ocibridge", "mirror", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def seen(process: subprocess.Popen[str], word: str) -> None:
    """Wait for a line with this word."""
    assert process.stderr
    for line in process.stderr:
        if word in line:
            return
    raise AssertionError(f"{word} was not said")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("executor", "number", "status"), [("threads", signal.SIGINT, 130), ("processes", signal.SIGTERM, 143)]
)
def test_interrupted_in_the_middle_and_going_on(
    run: Run, site: Site, executor: str, number: signal.Signals, status: int
) -> None:
    site.put("v3", 1_000_000)  # takes minutes
    path = site.job(top="defaults: {bandwidth: 5KiB}")
    files = [site.folder / name for name in ("r.json", "r.html", "r.prom")]
    reports = ("--report", files[0], "--report", files[1], "--metrics", files[2])
    with started("run", path, "--workers", 1, "--progress", "json", "--executor", executor, *reports) as process:
        for tag in ("v1", "v2"):
            seen(process, f'"source":"{site.source}:{tag}"')
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert [line.split()[:2] for line in out.splitlines()] == [["copied", f"{site.source}:v{n}"] for n in (1, 2)]
    error = {"type": "Interrupted", "message": "interrupted", "hint": "run the same command again to resume"}
    summary, last = (json.loads(line) for line in err.splitlines()[-2:])
    assert summary["text"].startswith("interrupted: 2 copied, 1 left to do; 2.0 KiB moved")
    assert last["error"] == error
    document = json.loads(files[0].read_text())
    assert (document["interrupted"], document["remaining"]) == (True, 1)
    assert nonzero(document["counts"]) == {"copied": 2}
    assert "interrupted" in files[1].read_text().lower()
    assert 'ocibridge_mirror_success{mirror="job.yaml"} 0.0' in files[2].read_text()
    assert 'ocibridge_mirror_remaining_items{mirror="job.yaml"} 1.0' in files[2].read_text()
    assert site.there == ["v1", "v2"]
    site.job()
    report = json.loads(run("mirror", "run", path, "--json").out)
    assert (nonzero(report["counts"]), report["resumed"]) == ({"copied": 1, "skipped": 2}, 2)
    assert site.there == ["v1", "v2", "v3"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_second_signal_ends_at_once(site: Site) -> None:
    site.put("v3", 1_000_000)
    path = site.job(top="defaults: {bandwidth: 5KiB}")
    with socket.create_server(("127.0.0.1", 0)) as gateway:  # takes connections, and says nothing
        push = ("--push-gateway", f"http://127.0.0.1:{gateway.getsockname()[1]}")
        with started("run", path, "--workers", 1, *push) as process:
            seen(process, f"copied {site.source}:v2")
            process.send_signal(signal.SIGTERM)
            seen(process, "ocibridge: interrupted: ")
            time.sleep(0.6)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=5) == 143


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_following_until_somebody_ends_it(site: Site) -> None:
    with started("run", site.job("interval: 6h"), "--follow") as process:
        seen(process, "ocibridge: mirrored: 2 copied; ")
        seen(process, "ocibridge: the next run is due at 20")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, GO_ON)
    assert [line.split()[0] for line in out.splitlines()] == ["copied", "copied"]


def test_ending_with_the_first_failure(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--abort-on-error` and `--workers` reach the run."""
    given: list[RunOptions] = []
    from ocibridge.mirror import run as module

    real = module.mirror_run

    def watched(job: Job, options: RunOptions, **more: Any) -> object:
        given.append(options)
        return real(job, options, **more)

    monkeypatch.setattr(module, "mirror_run", watched)
    assert run("mirror", "run", site.path, "--abort-on-error", "--workers", 3, "--full", "-q").status == 0
    assert given == [RunOptions(workers=3, full=True, abort_on_error=True)]


def test_the_help_lists_the_commands(run: Run) -> None:
    outcome = run("mirror", "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert all(f"\n    {name} " in outcome.out for name in ("run", "plan", "check"))

# SPDX-License-Identifier: Apache-2.0
"""The same job by other executors: other processes, and real Dask clusters."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ocibridge.mirror.executors import executor_of
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.options import RunOptions
from ocibridge.mirror.remote import RemoteWork
from ocibridge.mirror.reports import MirrorReport
from ocibridge.mirror.run import mirror_run
from ocibridge.mirror.storepool import StorePool
from ocibridge.oci import parse_reference
from ocibridge.stores.registry import RegistryStore

from ..registry import RegistryServer
from .artifacts import drop_blob, job, put, tags, whole
from .jobs import nonzero

TAGS = 12
SECRET = "hunter2-in-the-environment"


@pytest.fixture
def path(
    tmp_path: Path,
    source: RegistryServer,
    repository: str,
    target: RegistryServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A job of `TAGS` tags; each worker has to find the password of another host in its own environment."""
    monkeypatch.setenv("TEST_MIRROR_PASSWORD", SECRET)
    for number in range(TAGS):
        put(source.host, repository, f"v{number}", [b"shared by all", b"%d of %s" % (number, repository.encode())])
    return job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        creds:
          - {{registry: other.example, user: somebody, pass: '{{{{env "TEST_MIRROR_PASSWORD"}}}}'}}
        sync:
          - {{source: {source.host}/{repository}, target: {target.host}/{repository}, type: repository}}
        """,
    )


def check(report: MirrorReport, source: RegistryServer, target: RegistryServer, repository: str) -> None:
    assert nonzero(report.counts) == {"copied": TAGS}, [item.error for item in report.items]
    assert tags(target.host, repository) == tags(source.host, repository)
    for number in range(TAGS):
        assert whole(target.host, repository, f"v{number}") == whole(source.host, repository, f"v{number}")


def test_what_is_sent_has_no_secret_in_it(path: Path) -> None:
    loaded = Job.load(path)
    sent = pickle.dumps(RemoteWork.of(loaded))
    assert SECRET.encode() not in sent
    assert b"TEST_MIRROR_PASSWORD" in sent
    assert loaded.options_for("other.example").password == SECRET


def test_a_worker_knows_nothing_from_an_earlier_run(
    path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    """The workers of a cluster live longer than a run, and targets lose things in between."""
    with executor_of("processes", 1) as pool:
        check(mirror_run(path, executor=pool), source, target, repository)
        lost = list(whole(target.host, repository, "v1"))[-1]
        drop_blob(target.host, repository, lost)
        again = mirror_run(path, executor=pool)
    assert nonzero(again.counts) == {"skipped": TAGS - 1, "copied": 1}
    assert whole(target.host, repository, "v1") == whole(source.host, repository, "v1")


def test_other_processes_do_the_work(
    path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    with executor_of("processes", 2) as pool:
        report = mirror_run(path, executor=pool, options=RunOptions(workers=2, executor="processes"))
    check(report, source, target, repository)
    assert (report.executor, report.workers) == ("processes", 2)


def test_news_of_hosts_are_told_once(path: Path, source: RegistryServer, repository: str) -> None:
    with StorePool(Job.load(path)) as pool:
        there = pool.store(parse_reference(f"{source.host}/{repository}:v1"))
        assert isinstance(there, RegistryStore)
        assert pool.news() == []
        there.host.responded({"warning": '299 - "it moves"'})
        assert pool.news() == pool.warnings() == [f"{source.host} says: it moves"]
        assert pool.news() == []


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_a_local_dask_cluster(path: Path, source: RegistryServer, target: RegistryServer, repository: str) -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        with executor_of("dask", 4, cluster.scheduler_address) as pool:
            report = mirror_run(path, executor=pool, options=RunOptions(workers=4, executor="dask"))
    check(report, source, target, repository)


def test_a_dask_cluster_of_two_processes_by_the_command_line(
    path: Path, source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path) as scheduler:
        command = [sys.executable, "-m", "ocibridge", "mirror", "run", str(path), "--json", "--no-journal"]
        command += ["--executor", "dask", "--scheduler", scheduler, "--workers", "4"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        report = MirrorReport.model_validate(json.loads(done.stdout))
    check(report, source, target, repository)
    assert report.executor == "dask"


def test_two_shards_at_the_same_time(
    path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    command = [sys.executable, "-m", "ocibridge", "mirror", "run", str(path), "--json", "--shard", "/2"]
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "JOB_COMPLETION_INDEX": str(index)},
                )
            )
            for index in range(2)
        ]
        ended = [each.communicate(timeout=120) for each in both]
    assert [each.returncode for each in both] == [0, 0], ended
    reports = [MirrorReport.model_validate(json.loads(out)) for out, _ in ended]
    assert [each.shard for each in reports] == ["0/2", "1/2"]
    assert all(each.items for each in reports)
    items = [item for each in reports for item in each.items]
    check(reports[0].model_copy(update={"counts": {"copied": len(items)}}), source, target, repository)


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """A scheduler and two workers, processes of their own that speak over loopback; gives the scheduler's address."""
    at = folder / "scheduler.json"
    with ExitStack() as stack:
        stack.enter_context(_process("dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(at)))
        end = time.monotonic() + 60
        while not at.exists() or not at.read_text():
            assert time.monotonic() < end, "the scheduler does not start"
            time.sleep(0.1)
        address = str(json.loads(at.read_text())["address"])
        for _ in range(2):
            options = ("--no-dashboard", "--no-nanny", "--nthreads", "2", "--local-directory", str(folder))
            stack.enter_context(_process("dask_worker", address, *options))
        yield address


@contextmanager
def _process(module: str, *options: str) -> Iterator[None]:
    code = f"from distributed.cli.{module} import main; main()"
    command = [sys.executable, "-c", code, "--host", "127.0.0.1", *options]
    if module == "dask_worker":
        command = [sys.executable, "-c", code, *options]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONWARNINGS": "ignore"}
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

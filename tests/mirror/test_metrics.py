# SPDX-License-Identifier: Apache-2.0
"""Metrics of a run: what Prometheus' own client reads in them, and what a server receives."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics

from ocibridge.errors import (
    AuthenticationError,
    DestinationError,
    FormatError,
    NetworkError,
    StoreError,
    UsageError,
    writing,
)
from ocibridge.io.atomic import AtomicFile
from ocibridge.mirror.output.metrics import METRICS, push_gateway, write_textfile
from ocibridge.mirror.reports import Failure, MirrorReport

from ..quiet import QuietServer
from .pages import BEGAN, HOSTILE, REPORT, item, night, report

DASHBOARD = Path(__file__).parents[2] / "docs" / "deploy" / "grafana-dashboard.json"
SCHEMAS = REPORT.with_name("grafana.json.gz")
PREFIX = "ocibridge_mirror_"
SECRET = "s3cret/pass word"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def families(text: str) -> list[Metric]:
    read: Callable[[str], Iterator[Metric]] = openmetrics.text_string_to_metric_families
    return list(read(text))


def samples(text: str) -> Samples:
    """Name without prefix and labels of each sample, and its value; both formats say the same."""
    found = {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in families(text)
        for sample in family.samples
    }
    plain = {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == plain
    return found


def only(found: Samples, name: str, **labels: str) -> float:
    """The one sample of this name that has these labels beside `mirror`."""
    return found[name, frozenset({"mirror": "mirror.yaml", **labels}.items())]


def failing() -> MirrorReport:
    return report([item(), item("failed", error=Failure(type="NetworkError", message="gone"))], seconds=20.0)


class TestTextfile:
    def test_every_number_is_that_of_the_report(self, tmp_path: Path) -> None:
        made = night()
        write_textfile(made, tmp_path / "night.prom", name="mirror.yaml")
        found = samples((tmp_path / "night.prom").read_text())
        for outcome in ("copied", "skipped", "pruned", "kept", "failed"):
            assert only(found, "items", outcome=outcome) == made.counts[outcome]
        for how in ("copied", "mounted", "present"):
            assert only(found, "blobs", how=how) == getattr(made.totals, how)
            assert only(found, "bytes", how=how) == getattr(made.totals, f"{how}_bytes")
        assert only(found, "duration_seconds") == made.seconds
        assert only(found, "last_run_timestamp_seconds") == pytest.approx(BEGAN + made.seconds)
        assert only(found, "success") == 0
        assert only(found, "manifests") == made.totals.manifests
        assert only(found, "resumed_items") == made.resumed
        assert only(found, "warnings") == len(made.warnings)
        assert only(found, "workers") == made.workers
        assert only(found, "failures", error="NetworkError") == 4
        assert only(found, "failures", error="IntegrityError") == 1
        assert only(found, "failures", error="LimitError") == 0

    def test_all_metrics_are_gauges_with_their_unit_at_the_end_and_a_help(self, tmp_path: Path) -> None:
        write_textfile(report([item()]), tmp_path / "a.prom")
        found = families((tmp_path / "a.prom").read_text())
        assert {family.name for family in found} == set(METRICS)
        for family in found:
            assert family.type == "gauge"
            assert family.documentation == METRICS[family.name].help
            assert family.unit == METRICS[family.name].unit
            assert family.name.endswith(family.unit)
            assert re.fullmatch(r"ocibridge_mirror_[a-z_]+", family.name)

    def test_outcomes_that_did_not_occur_are_zero(self, tmp_path: Path) -> None:
        write_textfile(report([]), tmp_path / "a.prom")
        found = samples((tmp_path / "a.prom").read_text())
        assert sum(value for (name, _), value in found.items() if name in ("items", "failures", "blobs", "bytes")) == 0
        assert len([name for name, _ in found if name == "items"]) == 5
        assert only(found, "success") == 1

    def test_the_label_is_the_name_of_the_job_file_or_what_the_caller_says(self, tmp_path: Path) -> None:
        write_textfile(report([], shard="3/16"), tmp_path / "a.prom")
        labels = {pair for _, labels in samples((tmp_path / "a.prom").read_text()) for pair in labels}
        assert {("mirror", "mirror.yaml"), ("shard", "3/16")} <= labels
        write_textfile(report([]), tmp_path / "b.prom", name="east")
        labels = {pair for _, labels in samples((tmp_path / "b.prom").read_text()) for pair in labels}
        assert ("mirror", "east") in labels
        assert "shard" not in dict(labels)

    def test_the_last_success_outlives_failures(self, tmp_path: Path) -> None:
        path = tmp_path / "a.prom"
        write_textfile(failing(), path)
        assert not [name for name, _ in samples(path.read_text()) if name.startswith("last_success")]
        write_textfile(report([item()], seconds=10.0), path)
        write_textfile(failing(), path)
        write_textfile(failing(), path)
        found = samples(path.read_text())
        assert only(found, "last_success_timestamp_seconds") == BEGAN + 10
        assert only(found, "last_run_timestamp_seconds") == BEGAN + 20

    def test_the_success_of_another_job_or_shard_is_not_ours(self, tmp_path: Path) -> None:
        path = tmp_path / "a.prom"
        for other in (report([item()], job="other.yaml"), report([item()], shard="0/2")):
            write_textfile(other, path)
            write_textfile(failing(), path)
            assert not [name for name, _ in samples(path.read_text()) if name.startswith("last_success")]

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(cut=st.integers(0, 6000), junk=st.binary(max_size=40))
    def test_a_damaged_file_is_written_anew(self, tmp_path: Path, cut: int, junk: bytes) -> None:
        path = tmp_path / "a.prom"
        write_textfile(report([item()]), path)
        whole = path.read_bytes()
        path.write_bytes(whole[:cut] + junk + whole[cut + len(junk) :])
        write_textfile(failing(), path)
        assert only(samples(path.read_text()), "success") == 0

    def test_hostile_names_and_kinds_are_values_of_labels(self, tmp_path: Path) -> None:
        items = [item("failed", error=Failure(type=text, message="")) for text in HOSTILE]
        path = tmp_path / "a.prom"
        write_textfile(report([*items, item("failed")], shard='"}\n\\'), path, name='x"\n\\{} # EOF')
        found = samples(path.read_bytes().decode())
        kinds = {dict(labels)["error"] for name, labels in found if name == "failures"}
        assert set(HOSTILE) <= kinds
        assert "unknown" in kinds
        assert {dict(labels)["mirror"] for _, labels in found} == {'x"\n\\{} # EOF'}

    def test_others_may_read_the_file_and_nothing_else_is_left(self, tmp_path: Path) -> None:
        path = tmp_path / "a.prom"
        before = os.umask(0o022)
        try:
            write_textfile(night(), path)
        finally:
            os.umask(before)
        if os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert [each.name for each in tmp_path.iterdir()] == ["a.prom"]

    def test_a_write_that_fails_leaves_the_file_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.prom"
        write_textfile(report([item()]), path)
        before = path.read_bytes()

        write = AtomicFile.write

        def full(self: AtomicFile, data: bytes) -> None:
            write(self, data[:100])
            with writing(self.target):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(AtomicFile, "write", full)
        with pytest.raises(DestinationError) as caught:
            write_textfile(failing(), path)
        assert (
            str(caught.value)
            == f"cannot write {path}: no space left on device; free some space, or write to another disk"
        )
        assert path.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == ["a.prom"]

    def test_a_name_that_nobody_would_read_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as caught:
            write_textfile(report([]), tmp_path / "a.txt")
        assert (
            str(caught.value) == f"the node exporter would not read {tmp_path}/a.txt; choose a name that ends in .prom"
        )

    def test_a_folder_that_is_not_there_is_one_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "none" / "a.prom"
        with pytest.raises(DestinationError, match=r"cannot write .*: no such file or directory; check the path"):
            write_textfile(report([]), path)

    def test_a_report_without_a_time_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="does not say when the run began"):
            write_textfile(report([], started="soon"), tmp_path / "a.prom")

    def test_without_the_client_it_says_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        said = "metrics need the package prometheus-client; install it with: pip install 'ocibridge[metrics]'"
        with pytest.raises(UsageError) as caught:
            write_textfile(night(), tmp_path / "a.prom")
        assert str(caught.value) == said
        with pytest.raises(UsageError) as caught:
            push_gateway(night(), "http://g.example")
        assert str(caught.value) == said

    def test_the_client_is_not_imported_before_it_is_needed(self) -> None:
        code = "import sys, ocibridge.mirror.output.metrics; sys.exit('prometheus_client' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@dataclass
class Gateway:
    """A server that takes pushes.

    Attributes:
        received: Method, path, headers and body of each request.
        answer: Status, headers and body that it gives.
    """

    url: str
    received: list[tuple[str, str, Mapping[str, str], bytes]]
    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")


@contextmanager
def serving() -> Iterator[Gateway]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.received.append((self.command, self.path, dict(self.headers), body))
            status, headers, text = taken.answer
            self.send_response(status)
            for key, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(text)

        do_PUT = do_GET = do_DELETE = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        taken = Gateway(f"http://127.0.0.1:{server.server_port}", [])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield taken
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving() as found:
        yield found


class TestPush:
    def test_the_server_receives_what_a_file_would_hold(self, gateway: Gateway, tmp_path: Path) -> None:
        push_gateway(night(), gateway.url)
        write_textfile(night(), tmp_path / "a.prom")
        ((method, path, headers, body),) = gateway.received
        assert method == "POST"
        assert path == "/metrics/job/ocibridge_mirror/mirror/nightly.yaml"
        assert headers["Content-Type"].startswith("text/plain; version=")
        assert "Authorization" not in headers
        pushed = {
            (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(body.decode())
            for sample in family.samples
        }
        assert pushed == samples((tmp_path / "a.prom").read_text())

    def test_shards_and_sites_are_groups_of_their_own(self, gateway: Gateway) -> None:
        push_gateway(report([], shard="3/16"), f"{gateway.url}/", job="nightly", grouping={"site": "east"}, name="a b")
        ((_, path, _, _),) = gateway.received
        words = path.removeprefix("/metrics/job/nightly/").split("/")
        group = dict(zip(words[::2], words[1::2], strict=True))
        assert group == {
            "mirror@base64": base64.urlsafe_b64encode(b"a b").decode(),
            "shard@base64": base64.urlsafe_b64encode(b"3/16").decode(),
            "site": "east",
        }

    def test_what_is_pushed_after_a_failure_leaves_the_last_success_alone(self, gateway: Gateway) -> None:
        push_gateway(report([item()]), gateway.url)
        push_gateway(failing(), gateway.url)
        first, second = (
            {line.split("{")[0] for line in got[3].decode().splitlines() if line[0] != "#"} for got in gateway.received
        )
        assert first - second == {f"{PREFIX}last_success_timestamp_seconds"}
        assert second <= first

    def test_a_path_before_the_gateway_is_kept(self, gateway: Gateway) -> None:
        push_gateway(report([]), f"{gateway.host}/push/")
        assert gateway.received[0][1].startswith("/push/metrics/job/")

    def test_credentials_of_the_url_go_to_the_gateway_alone(self, gateway: Gateway) -> None:
        with serving() as other:
            gateway.answer = (307, {"Location": f"{other.url}/metrics"}, b"")
            url = gateway.url.replace("://", "://robot:s3cret%2Fpass%20word@")
            with pytest.raises(StoreError, match="HTTP 307") as caught:
                push_gateway(report([]), url)
            assert other.received == []
        ((_, path, headers, _),) = gateway.received
        assert headers["Authorization"] == f"Basic {base64.b64encode(f'robot:{SECRET}'.encode()).decode()}"
        assert "robot" not in path
        assert caught.value.hint == "give the address of the gateway itself, without /metrics"

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 302])
    def test_no_error_says_the_secret_even_if_the_server_does(self, gateway: Gateway, status: int) -> None:
        gateway.answer = (status, {}, f"you sent {SECRET} and s3cret%2Fpass%20word".encode())
        with pytest.raises(StoreError) as caught:
            push_gateway(report([]), gateway.url.replace("://", "://robot:s3cret%2Fpass%20word@"))
        said = f"{caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"
        assert "s3cret" not in said
        assert gateway.host in str(caught.value)
        assert caught.value.status == status
        assert isinstance(caught.value, AuthenticationError) == (status in (401, 403))

    def test_what_the_gateway_says_is_shown(self, gateway: Gateway) -> None:
        gateway.answer = (400, {}, b"pushed metrics are invalid\n" + b"x" * 100_000)
        with pytest.raises(StoreError) as caught:
            push_gateway(report([]), gateway.url)
        assert str(caught.value) == (
            f"the push gateway {gateway.host} refused the metrics: HTTP 400 Bad Request, pushed metrics are invalid; "
            "see the log of the gateway"
        )

    @pytest.mark.parametrize("text", [b"\x1b[31mred", b"\xff\xfe", b"y" * 5000, b""])
    def test_what_it_says_is_short_and_harmless(self, gateway: Gateway, text: bytes) -> None:
        gateway.answer = (500, {}, text)
        with pytest.raises(StoreError) as caught:
            push_gateway(report([]), gateway.url)
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()

    def test_a_gateway_that_is_silent_is_given_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://robot:{'s3cret'}@127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(NetworkError) as caught:
                push_gateway(report([]), url, timeout=0.2)
        assert str(caught.value) == (
            f"the push gateway {url.partition('@')[2]} does not respond; see whether it is up; it has 0.2 s to respond"
        )

    def test_a_gateway_that_is_not_there_is_one_sentence(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            host = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            NetworkError, match=f"the push gateway {host} cannot be reached: .*; check its address"
        ) as caught:
            push_gateway(report([]), f"http://robot:s3cret@{host}")
        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "ftp://robot:s3cret@g.example",
            "http://robot:s3cret@",
            "http://robot:s3cret@g.example:port",
            "http://robot:s3cret@g.example:99999",
            "http://robot:s3cret@[::1",
            "http://g.example/?token=s3cret",
            "http://g.example/#s3cret",
        ],
    )
    def test_a_url_that_cannot_be_used_is_refused_without_being_repeated(self, url: str) -> None:
        with pytest.raises(
            UsageError, match=r"the URL of the push gateway cannot be (read|used); write it as"
        ) as caught:
            push_gateway(report([]), url)
        assert "s3cret" not in f"{caught.value}{caught.value.__cause__}"

    @pytest.mark.parametrize("label", ["job", "__name__", "a-b", "", "1st", "größe"])
    def test_labels_that_a_gateway_would_not_take_are_refused(self, gateway: Gateway, label: str) -> None:
        with pytest.raises(UsageError, match=f"the metrics cannot be grouped by {label!r}; name labels with letters"):
            push_gateway(report([]), gateway.url, grouping={label: "x"})
        with pytest.raises(UsageError, match="cannot be grouped by no job"):
            push_gateway(report([]), gateway.url, job="")
        assert gateway.received == []


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_bytes())
    return found


def schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(SCHEMAS.read_bytes()))
    return found


class TestDashboard:
    def test_it_is_what_grafana_reads(self) -> None:
        found, known = dashboard(), schemas()

        def check(kind: str, part: str | None, document: object) -> None:
            schema = known[kind] | ({"$ref": f"#/definitions/{part}"} if part else {})
            jsonschema.Draft7Validator(schema).validate(document)

        check("dashboard", None, found)
        for panel in found["panels"]:
            check("dashboard", "Panel", panel)
            check(panel["type"], "Options", panel["options"])
            if "FieldConfig" in known[panel["type"]]["definitions"]:
                check(panel["type"], "FieldConfig", panel["fieldConfig"]["defaults"]["custom"])
            for target in panel["targets"]:
                check("prometheus", None, target)

    def test_the_schemas_refuse_something(self) -> None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(schemas()["dashboard"]).validate(dashboard() | {"panel": []})

    def test_every_query_names_metrics_and_labels_that_are_written(self) -> None:
        queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
        queries += [each["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query"]
        used = set()
        for query in queries:
            names = re.findall(r"\bocibridge\w+", query)
            assert names
            used.update(names)
            for name, matchers in re.findall(r"(\bocibridge\w+)\{([^}]*)\}", query):
                labels = set(re.findall(r"(\w+)(?:=~|!=|=)", matchers))
                assert labels <= {"mirror", "shard", METRICS[name].label}
            for labels in re.findall(r"\bby \(([^)]*)\)", query):
                assert set(labels.split(", ")) <= {"mirror", "shard", *(METRICS[name].label for name in names)}
        assert used == set(METRICS)

    def test_every_panel_has_a_place_of_its_own_and_says_what_it_is(self) -> None:
        cells: set[tuple[int, int]] = set()
        for panel in dashboard()["panels"]:
            place = panel["gridPos"]
            mine = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & mine
            assert max(x for x, _ in mine) < 24
            cells |= mine
            assert panel["title"]
            assert panel["description"]
        assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])

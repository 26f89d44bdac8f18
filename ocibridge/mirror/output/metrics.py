# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run for Prometheus: as a file for the node exporter, or pushed to a push gateway.

All are gauges, as a batch job is over when it is asked (Prometheus, "Instrumenting", batch jobs); the text is both
OpenMetrics 1.0 and the Prometheus text format 0.0.4. Each has the label `mirror`, the name of the job file, and `shard`
where the run was a part of it. It is not `job`, because Prometheus keeps that for who is asked: the node exporter.

Needs the package prometheus-client, which the extra `metrics` brings.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import unquote, urlsplit

from ... import errors
from ...errors import AuthenticationError, FormatError, NetworkError, OcibridgeError, StoreError, UsageError
from ...io.atomic import check_replaceable, write_file
from ...settings import KiB, MiB
from ..reports import MirrorReport, Outcome
from .timeline import moment

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

PUSH_JOB = "ocibridge_mirror"
"""Value of the label `job` of what is pushed, unless the caller says otherwise."""

TIMEOUT = 10.0
"""Seconds that a push gateway may be silent unless the caller says otherwise."""

_PREFIX = "ocibridge_mirror_"
_LAST_SUCCESS = f"{_PREFIX}last_success_timestamp_seconds"
_MOST_BYTES = MiB
"""Of a file that was written before."""
_MOST_WORDS = 200
"""Characters of a response of a gateway that an error shows."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric.

    Attributes:
        help: What it is.
        unit: As the end of the name says.
        label: An additional label, next to `mirror` and `shard`.
    """

    help: str
    unit: str = ""
    label: str | None = None


METRICS: dict[str, Gauge] = {
    f"{_PREFIX}last_run_timestamp_seconds": Gauge("When the last run ended, in seconds since 1970.", "seconds"),
    _LAST_SUCCESS: Gauge("When the last run without a failure ended, in seconds since 1970.", "seconds"),
    f"{_PREFIX}success": Gauge("Whether the last run was completed, and nothing in it failed: 1 or 0."),
    f"{_PREFIX}duration_seconds": Gauge("How long the last run took.", "seconds"),
    f"{_PREFIX}items": Gauge("Tags of the last run by outcome.", label="outcome"),
    f"{_PREFIX}failures": Gauge("Tags that failed in the last run by kind of error.", label="error"),
    f"{_PREFIX}blobs": Gauge("Blobs of the last run by what became of them.", label="how"),
    f"{_PREFIX}bytes": Gauge("Bytes of the blobs of the last run by what became of them.", "bytes", "how"),
    f"{_PREFIX}manifests": Gauge("Manifests and indexes that the last run pushed."),
    f"{_PREFIX}resumed_items": Gauge("Tags that an interrupted run had finished before the last run."),
    f"{_PREFIX}remaining_items": Gauge("Tags that the last run did not reach, as it was interrupted."),
    f"{_PREFIX}warnings": Gauge("Warnings of the last run."),
    f"{_PREFIX}workers": Gauge("Tags that the last run worked on at the same time."),
}
"""Name of each metric, and what it is."""


def check_metrics(path: Path | None = None, url: str | None = None) -> None:
    """Find out before a run, which may take hours, what can never be written or pushed after it.

    Args:
        path: What `write_textfile` would be given.
        url: What `push_gateway` would be given.

    Raises:
        UsageError: the path does not end in `.prom`, the URL cannot be used, or prometheus-client is not installed.
        DestinationError: the file cannot be written, or is nothing that `write_textfile` wrote.
    """
    _need_client()
    if path is not None and path.suffix != ".prom":
        raise UsageError(f"the node exporter would not read {path}", hint="choose a name that ends in .prom")
    if path is not None:
        check_replaceable(path, _PREFIX.encode(), "file of metrics of a mirror run")
    if url is not None:
        _Gateway.parse(url)


def write_textfile(report: MirrorReport, path: Path, *, name: str | None = None) -> None:
    """Write a file for the textfile collector of the node exporter, in one step.

    The time of the last success is that of `report`, or that of the previous file if something has failed.

    Args:
        report: Of a run.
        path: Ends in `.prom`, or the node exporter would not read it. Each job, and each shard, needs its own.
        name: Value of the label `mirror`; the name of the job file by default.

    Raises:
        UsageError: the path does not end in `.prom`, or prometheus-client is not installed.
        DestinationError: the file cannot be written.
        FormatError: the report does not say when the run began.
    """
    check_metrics(path)
    from prometheus_client.openmetrics import exposition

    render: Callable[[CollectorRegistry], bytes] = exposition.generate_latest
    labels = _labels(report, name)
    text = render(_registry(report, labels, _earlier_success(path, labels)))
    write_file(path, text)


def push_gateway(
    report: MirrorReport,
    url: str,
    *,
    name: str | None = None,
    job: str = PUSH_JOB,
    grouping: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Push to a Prometheus push gateway.

    What has the same name in the group is replaced, and nothing else (POST): the time of the last success stays where
    something has failed now.

    Args:
        report: Of a run.
        url: Of the gateway, such as `http://pushgateway.example:9091`; a user and password in it are sent as basic
            authentication, and named nowhere.
        name: Value of the label `mirror`; the name of the job file by default.
        job: Value of the first label of the group.
        grouping: Additional labels of the group, next to `mirror` and `shard`.
        timeout: Seconds that the gateway may be silent.

    Raises:
        UsageError: the URL or the labels cannot be used, or prometheus-client is not installed.
        AuthenticationError: the gateway wants another user.
        NetworkError: the gateway cannot be reached, or does not respond in time.
        StoreError: the gateway refuses the metrics.
        FormatError: the report does not say when the run began.
    """
    _need_client()
    from prometheus_client import pushadd_to_gateway

    gateway = _Gateway.parse(url)
    labels = _labels(report, name)
    group = {**(grouping or {}), **labels}
    bad = [label for label in group if label == "job" or label.startswith("__") or not _is_label(label)]
    if bad or not job:
        raise UsageError(
            f"the metrics cannot be grouped by {bad[0]!r}" if bad else "the metrics cannot be grouped by no job",
            hint="name labels with letters, digits and underscores",
        )
    pushadd_to_gateway(gateway.url, job, _registry(report, labels, None), group, timeout, gateway.handler)


def _is_label(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def _need_client() -> None:
    if find_spec("prometheus_client") is None:
        raise UsageError(
            "metrics need the package prometheus-client", hint="install it with: pip install 'ocibridge[metrics]'"
        )


def _labels(report: MirrorReport, name: str | None) -> dict[str, str]:
    labels = {"mirror": name or Path(report.job).name}
    return labels | ({"shard": report.shard} if report.shard else {})


def _samples(report: MirrorReport, earlier_success: float | None) -> Iterator[tuple[str, str | None, float]]:
    """Name of the metric, value of its label, and the number."""
    began = moment(report.started)
    if began is None:
        raise FormatError("the report does not say when the run began")
    ended = began.timestamp() + report.seconds
    failed = bool(report.counts.get("failed")) or report.interrupted
    success = earlier_success if failed else ended
    yield f"{_PREFIX}last_run_timestamp_seconds", None, ended
    if success is not None:
        yield _LAST_SUCCESS, None, success
    yield f"{_PREFIX}success", None, float(not failed)
    yield f"{_PREFIX}duration_seconds", None, report.seconds
    for outcome in get_args(Outcome):
        yield f"{_PREFIX}items", outcome, report.counts.get(outcome, 0)
    # All kinds, every time: one that has vanished would stay at a gateway as it was.
    for kind, number in _failures(report).items():
        yield f"{_PREFIX}failures", kind, number
    totals = report.totals
    for how in ("copied", "mounted", "present"):
        yield f"{_PREFIX}blobs", how, getattr(totals, how)
        yield f"{_PREFIX}bytes", how, getattr(totals, f"{how}_bytes")
    yield f"{_PREFIX}manifests", None, totals.manifests
    yield f"{_PREFIX}resumed_items", None, report.resumed
    if report.remaining is not None:
        yield f"{_PREFIX}remaining_items", None, report.remaining
    yield f"{_PREFIX}warnings", None, len(report.warnings)
    yield f"{_PREFIX}workers", None, report.workers


def _failures(report: MirrorReport) -> Counter[str]:
    """Number of failed items by kind of error, with a 0 for every kind that did not occur."""
    found = Counter(
        {name: 0 for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OcibridgeError)}
    )
    found.update(item.error.type if item.error else "" for item in report.items if item.outcome == "failed")
    return found


def _registry(report: MirrorReport, labels: Mapping[str, str], earlier_success: float | None) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry
    from prometheus_client import Gauge as Series

    registry = CollectorRegistry()
    made: dict[str, Series] = {}
    for metric, value, number in _samples(report, earlier_success):
        gauge = METRICS[metric]
        own = {gauge.label: value or "unknown"} if gauge.label else {}
        if metric not in made:
            made[metric] = Series(metric, gauge.help, [*labels, *own], unit=gauge.unit, registry=registry)
        made[metric].labels(**labels, **own).set(number)
    return registry


def _earlier_success(path: Path, labels: Mapping[str, str]) -> float | None:
    """Read the time of the last success from an earlier file."""
    from prometheus_client.openmetrics import parser

    read: Callable[[str], Iterator[Metric]] = parser.text_string_to_metric_families
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES).decode()
        families = list(read(text))
    except (OSError, ValueError):
        return None  # there is none, or it is somebody else's
    samples = [sample for family in families for sample in family.samples if sample.name == _LAST_SUCCESS]
    return next((s.value for s in samples if s.labels == labels and math.isfinite(s.value)), None)


@dataclass(frozen=True, slots=True)
class _Gateway:
    """A push gateway.

    Attributes:
        url: Without the credentials.
        name: For people.
        auth: User and password.
    """

    url: str
    name: str
    auth: tuple[str, str] | None

    @staticmethod
    def parse(url: str) -> _Gateway:
        hint = "write it as http://HOST:9091"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError:
            raise UsageError("the URL of the push gateway cannot be read", hint=hint) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError("the URL of the push gateway cannot be used", hint=hint)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        name = f"{host}:{port}" if port else host
        auth = None
        if parts.username is not None:
            auth = (unquote(parts.username), unquote(parts.password or ""))
        return _Gateway(f"{parts.scheme}://{name}{parts.path.rstrip('/')}", name, auth)

    def handler(
        self, url: str, method: str, timeout: float | None, headers: Sequence[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        """Request handler for prometheus-client; its default would send the password to hosts of redirects."""

        def send() -> None:
            import httpx

            try:
                with httpx.stream(
                    method, url, headers=list(headers), content=data, auth=self.auth, timeout=timeout
                ) as response:
                    body = b"" if response.is_success or self.auth else next(response.iter_bytes(KiB), b"")
            except httpx.TimeoutException as exc:
                raise NetworkError(
                    f"the push gateway {self.name} does not respond",
                    hint=f"see whether it is up; it has {timeout:g} s to respond",
                ) from exc
            except (httpx.HTTPError, httpx.InvalidURL) as exc:
                raise NetworkError(
                    f"the push gateway {self.name} cannot be reached: {exc or type(exc).__name__}",
                    hint="check its address, and whether it is up",
                ) from exc
            if not response.is_success:
                raise self._refused(response.status_code, response.reason_phrase, body)

        return send

    def _refused(self, status: int, reason: str, body: bytes) -> StoreError:
        message = f"the push gateway {self.name} refused the metrics: HTTP {status} {reason}".rstrip()
        if status in (401, 403):
            hint = "put the right user into its URL: http://USER:PASSWORD@HOST"
            return AuthenticationError(message, hint=hint, status=status)
        lines = body.decode(errors="replace").strip().splitlines()
        if lines and lines[0].isprintable():
            message = f"{message}, {lines[0][:_MOST_WORDS]}"
        hint = "see the log of the gateway"
        if status < 400 or status == 404:
            hint = "give the address of the gateway itself, without /metrics"
        return StoreError(message, hint=hint, status=status)

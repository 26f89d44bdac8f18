# SPDX-License-Identifier: Apache-2.0
"""What a job file means."""

from __future__ import annotations

import hashlib
import json
import pickle
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from ocibridge.errors import SourceError
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.jobs.jobfile import Prune
from ocibridge.mirror.jobs.places import RegistryPlace
from ocibridge.oci import LayoutReference, RegistryReference
from ocibridge.options import parse_rate, parse_size
from ocibridge.stores.registry.options import RateLimits, RegistryOptions

from .jobs import SYNC, entry, load

ROOT = Path(__file__).parents[2]
EVERYTHING = """\
version: 1
x-filters: &releases
  allow: ['v\\d+\\..*', latest]
  deny: ['.*-rc\\d+']
creds:
  - registry: Reg.Example:5000
    user: '{{env "OCIBRIDGE_TEST_USER"}}'
    pass: '{{ env "OCIBRIDGE_TEST_PASS" }}'
    tls: insecure
    reqConcurrent: 3
    reqPerSec: 2.5
  - registry: docker.io
    tls: enabled
defaults:
  parallel: 8
  bandwidth: 50MiB
  interval: 6h
  referrers: false
  digestTags: false
  ratelimit: {min: 20, retry: 10m}
  prune:
    dryRun: false
    backup: pruned-{tag}
  models:
    size: {max: 100GiB}
    licences: [apache-2.0, mit]
sync:
  - source: reg.example:5000/models/digits
    target: mirror.example/digits
    type: repository
    tags:
      <<: *releases
      semverRange: ['>=1.2 <3']
    tagSets:
      - allow: [stable]
      - {}
    referrers: true
    referrerFilters: [{artifactType: application/vnd.dev.cosign.artifact.sig.v1+json}]
    platforms: [linux/amd64, linux/arm64/v8]
    schedule: 15 3 * * *
    backup: old-{tag}
    fastCheck: true
    forceRecursive: true
    also: [image, ollama, image]
    dialect: modelpack
    prune: {enabled: true, maxShare: 0.25, tags: {deny: [keep]}}
    models:
      size: {min: 1KiB}
      artifactTypes: [a/b]
      dialects: [cnai]
      roles: [weight]
      architectures: [llama]
  - source: docker.io
    target: '{{env "OCIBRIDGE_TEST_HOST"}}/hub'
    type: registry
    repos: {allow: ['library/.*']}
  - source: reg.example:5000/models/digits:v1@sha256:%s
    target: oci:layout
    type: image
""" % ("a" * 64)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCIBRIDGE_TEST_USER", "robot")
    monkeypatch.setenv("OCIBRIDGE_TEST_PASS", "s3cret-word")
    monkeypatch.setenv("OCIBRIDGE_TEST_HOST", "mirror.example:5000")


def test_a_job_with_everything(tmp_path: Path) -> None:
    job = load(tmp_path, EVERYTHING)
    assert job.path == tmp_path / "job.yaml"
    assert job.digest == "sha256:" + hashlib.sha256(EVERYTHING.encode()).hexdigest()
    assert (job.parallel, job.bandwidth, job.warnings) == (8, 50 << 20, ())
    first, second, third = job.entries
    assert [each.number for each in job.entries] == [0, 1, 2]

    assert first.source == RegistryReference("reg.example:5000", "models/digits")
    assert first.target == RegistryReference("mirror.example", "digits")
    assert [[each.pattern for each in chosen.allow] for chosen in first.tag_sets] == [
        ["stable"],
        [r"v\d+\..*", "latest"],
    ]
    assert [each.text for each in first.tag_sets[1].semver_range] == [">=1.2 <3"]
    assert first.sync.referrers
    assert first.referrer_types == ("application/vnd.dev.cosign.artifact.sig.v1+json",)
    assert not first.sync.digest_tags
    assert first.sync.platforms == ("linux/amd64", "linux/arm64/v8")
    assert (first.sync.schedule, first.sync.interval) == ("15 3 * * *", None)
    assert first.sync.backup == "old-{tag}"
    assert first.sync.fast_check
    assert first.sync.force_recursive
    assert (first.sync.also, first.sync.dialect) == (("image", "ollama"), "modelpack")
    assert first.prune.tags is not None
    assert first.prune == Prune.model_validate(
        {"enabled": True, "dryRun": False, "maxShare": 0.25, "backup": "pruned-{tag}", "tags": first.prune.tags}
    )
    assert first.sync.models is not None
    assert first.sync.models.size is not None
    assert (first.sync.models.size.min, first.sync.models.size.max) == (1024, 100 << 30)
    assert first.sync.models.licences == ("apache-2.0", "mit")
    assert first.sync.models.roles == ("weight",)

    assert second.source == RegistryPlace("docker.io")
    assert second.target == RegistryPlace("mirror.example:5000", "hub")
    assert second.sync.repos is not None
    assert not second.sync.referrers
    assert second.sync.interval == timedelta(hours=6)
    assert second.prune == Prune.model_validate({"dryRun": False, "backup": "pruned-{tag}"})

    assert third.source == RegistryReference("reg.example:5000", "models/digits", "v1", "sha256:" + "a" * 64)
    assert third.target == LayoutReference(tmp_path / "layout", "v1")
    assert third.prune == Prune()


def test_what_is_not_said_is_the_default(tmp_path: Path) -> None:
    job = load(tmp_path, SYNC)
    (found,) = job.entries
    assert (job.parallel, job.bandwidth) == (None, None)
    assert found.tag_sets == ()
    assert found.sync.referrers
    assert found.sync.digest_tags
    assert not found.sync.fast_check
    assert not found.sync.force_recursive
    assert (found.sync.models, found.sync.dialect, found.sync.also, found.sync.backup) == (None, None, (), None)
    assert (found.sync.interval, found.sync.schedule) == (None, None)
    assert found.prune == Prune()
    assert job.options_for("reg.example") == RegistryOptions()


def test_an_entry_can_be_sent_to_another_process(tmp_path: Path) -> None:
    job = load(tmp_path, EVERYTHING)
    again = pickle.loads(pickle.dumps(job))
    assert again == job
    assert again.options_for("reg.example:5000") == job.options_for("reg.example:5000")


def test_how_hosts_are_reached(tmp_path: Path) -> None:
    job = load(tmp_path, EVERYTHING)
    options = job.options_for("reg.example:5000")
    assert (options.username, options.password) == ("robot", "s3cret-word")
    assert (options.plain_http, options.insecure) == (False, True)
    assert options.rate_limits == RateLimits(concurrent=3, per_second=2.5, remaining_min=20, remaining_wait=600)
    assert job.options_for("REG.EXAMPLE:5000") == options
    hub = job.options_for("registry-1.docker.io")
    assert hub.plain_http is False
    assert hub.username is None
    assert hub.rate_limits == RateLimits(remaining_min=20, remaining_wait=600)
    assert job.options_for("mirror.example") == RegistryOptions()


@pytest.mark.parametrize(
    ("tls", "expected"), [("enabled", (False, False)), ("insecure", (False, True)), ("disabled", (True, False))]
)
def test_tls(tls: str, expected: tuple[bool, bool], tmp_path: Path) -> None:
    options = load(tmp_path, SYNC + f"creds: [{{registry: 'reg.example', tls: {tls}}}]\n").options_for("reg.example")
    assert (options.plain_http, options.insecure) == expected


def test_the_most_careful_entry_decides_about_a_host(tmp_path: Path) -> None:
    one = "  - {source: a.example/%s, target: b.example/%s, type: repository, ratelimit: {min: %d%s}}\n"
    job = load(tmp_path, "sync:\n" + one % ("x", "x", 5, ", retry: 20m") + one % ("y", "y", 9, ""))
    assert job.options_for("a.example").rate_limits == RateLimits(remaining_min=9, remaining_wait=1200)
    job = load(tmp_path, "sync:\n" + one % ("x", "x", 5, ""))
    assert job.options_for("a.example").rate_limits == RateLimits(remaining_min=5, remaining_wait=300)


def test_files_are_taken_from_the_folder_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "ca.pem").write_text("x")
    (folder / "token").write_text("word\r\n")
    text = SYNC.replace("mirror.example/models", "oci:out")
    text += "creds: [{registry: r.example, user: u, passFile: token, "
    text += "regcert: ca.pem, clientCert: ca.pem, clientKey: ca.pem}]\n"
    (folder / "job.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    job = Job.load("jobs/job.yaml")
    options = job.options_for("r.example")
    assert options.password == "word"
    assert options.ca_file == options.cert_file == options.key_file == Path("jobs/ca.pem")
    assert job.entries[0].target == LayoutReference(Path("jobs/out"))


def test_defaults_are_merged_key_by_key(tmp_path: Path) -> None:
    defaults = (
        "defaults: {models: {size: {min: 1, max: 5}, roles: [doc]}, platforms: [linux/amd64], schedule: '@daily'}\n"
    )
    found = entry(tmp_path, "models: {size: {max: 9}}\nplatforms: [linux/arm64]\ninterval: 90s", defaults + SYNC)
    assert found.sync.models is not None
    assert found.sync.models.size is not None
    assert (found.sync.models.size.min, found.sync.models.size.max, found.sync.models.roles) == (1, 9, ("doc",))
    assert found.sync.platforms == ("linux/arm64",)
    assert (found.sync.interval, found.sync.schedule) == (timedelta(seconds=90), None)
    assert entry(tmp_path, "", defaults + SYNC).sync.schedule == "0 0 * * *"


def test_keys_without_a_value_count_as_absent(tmp_path: Path) -> None:
    found = entry(tmp_path, "tags:\n  deny:\nprune:\nreferrers: ~")
    assert found.tag_sets == ()
    assert found.sync.referrers


def test_an_image_without_a_tag_is_latest(tmp_path: Path) -> None:
    found = load(tmp_path, "sync: [{source: a.example/x, target: b.example/y, type: image}]").entries[0]
    assert found.source == RegistryReference("a.example", "x", "latest")
    assert found.target == RegistryReference("b.example", "y", "latest")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*job\.yaml: no such file or directory; check the path"):
        Job.load(tmp_path / "job.yaml")


def test_what_is_accepted_follows_the_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "schemas" / "mirror-job.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    load(tmp_path, EVERYTHING)
    validator.validate(json.loads(json.dumps(yaml.safe_load(EVERYTHING))))
    documents: list[dict[str, object]] = [{}, {"sync": []}, {"sync": [{"source": "a"}]}, {"sync": [], "surprise": 1}]
    for wrong in documents:
        assert list(validator.iter_errors(wrong))
    sync = {"source": "a.example/x", "target": "b.example/x", "type": "repository"}
    assert not list(validator.iter_errors({"sync": [sync]}))
    for key, value in {"hooks": {}, "interval": 60, "platforms": "linux/amd64", "tags": {"allow": [1.1]}}.items():
        assert list(validator.iter_errors({"sync": [{**sync, key: value}]}))


def test_the_example_of_the_docs_is_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "x")
    text = (ROOT / "docs" / "mirror-job.md").read_text(encoding="utf-8")
    blocks = text.split("```yaml\n")[1:]
    example = blocks[0].partition("```")[0]
    assert len(load(tmp_path, example).entries) == 3


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("12", 12),
        ("12B", 12),
        ("1KiB", 1024),
        ("1.5 GiB", 3 << 29),
        ("2MB", 2_000_000),
        ("3kB", 3000),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1 MiBs", "1e3", "GiB", "1,5GiB", "١", "1iB", "9" * 30])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is no size; write for example 500MB, 50MiB or 4GiB"):
        parse_size(text)


def test_rates() -> None:
    assert parse_rate("50MiB") == parse_rate("50MiB/s") == 50 << 20
    for text in ("0", "0.1", "50MiB/m", "fast"):
        with pytest.raises(ValueError, match="is no rate; write for example 50MiB, which is 50 MiB a second"):
            parse_rate(text)

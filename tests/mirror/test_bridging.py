# SPDX-License-Identifier: Apache-2.0
"""Models that travel: their companions, other dialects on the way, and filters that know what a model is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ocibridge
from ocibridge.mirror.plan import mirror_plan
from ocibridge.mirror.run import mirror_run

from ..formats.ollama.samples import unpack_store
from ..registry import RegistryServer
from ..translating import translate
from .artifacts import job, put, store, tags, whole

FIXTURES = Path(__file__).parents[1] / "fixtures"
CARTON = FIXTURES / "digits.carton"


def pushed(host: str, repository: str, tag: str, **options: object) -> str:
    return ocibridge.push(CARTON, f"{host}/{repository}:{tag}", ocibridge.PushOptions(**options)).digest  # type: ignore[arg-type]


def simple(path: Path, source: str, target: str, more: str = "", kind: str = "repository") -> Path:
    return job(
        path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source}
            target: {target}
            type: {kind}
            {more}
        """,
    )


def outcomes(path: Path) -> dict[str, tuple[str, str]]:
    return {item.target.rpartition(":")[2]: (item.outcome, item.reason) for item in mirror_run(path).items}


def test_companions_travel_with_their_model_whatever_the_filters_say(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pushed(source.host, repository, "v1", also=["image"])
    pushed(source.host, repository, "test")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "tags: {allow: ['v\\d+']}")
    assert set(outcomes(path)) == {"v1", "v1-image"}
    found, there = tags(target.host, repository), tags(source.host, repository)
    assert found == {tag: there[tag] for tag in ("v1", "v1-image")}
    assert whole(target.host, repository, "v1-image") == whole(source.host, repository, "v1-image")
    assert (
        ocibridge.pull(f"{target.host}/{repository}:v1", tmp_path / "out").identity
        == ocibridge.inspect(CARTON).identity
    )


def test_companions_of_one_image_travel_under_its_new_name(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pushed(source.host, repository, "v1", also=["image"])
    outcomes(simple(tmp_path, f"{source.host}/{repository}:v1", f"{target.host}/{repository}:stable", kind="image"))
    there = tags(source.host, repository)
    assert tags(target.host, repository) == {"stable": there["v1"], "stable-image": there["v1-image"]}


def test_an_image_is_made_on_the_way(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    digest = pushed(source.host, repository, "v1")
    put(source.host, repository, "other", [b"no model"])
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "also: [image]")
    report = mirror_run(path)
    assert {item.target.rpartition(":")[2]: item.also for item in report.items} == {
        "v1": [f"{target.host}/{repository}:v1-image"],
        "other": [],
    }
    assert set(tags(target.host, repository)) == {"v1", "v1-image", "other"}
    with store(target.host, repository) as there:
        index = json.loads(there.fetch_manifest("v1-image")[1])
    assert index["subject"]["digest"] == digest
    # It is made once, and again when the model has changed.
    assert all(item.outcome == "skipped" and not item.also for item in mirror_run(path).items)
    changed = pushed(source.host, repository, "v1", annotations={"changed": "yes"})
    again = mirror_run(path)
    assert [item.also for item in again.items if item.outcome == "copied"] == [[f"{target.host}/{repository}:v1-image"]]
    with store(target.host, repository) as there:
        assert json.loads(there.fetch_manifest("v1-image")[1])["subject"]["digest"] == changed


def test_a_companion_that_was_lost_is_made_again(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pushed(source.host, repository, "v1")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "also: [image]")
    mirror_run(path)
    with store(target.host, repository) as there:
        there.delete("v1-image")
    assert outcomes(path)["v1"][0] == "copied"
    assert "v1-image" in tags(target.host, repository)


def test_an_ollama_companion_is_made_on_the_way(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = unpack_store(tmp_path / "ollama")
    monkeypatch.setenv("OLLAMA_MODELS", str(models))
    name = "ollama:" + _some_model(models)
    ocibridge.push(name, f"{source.host}/{repository}:v1", ocibridge.PushOptions(also=["ollama"]))
    expected = tags(source.host, repository)
    with store(source.host, repository) as there:
        there.delete("v1-ollama")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "also: [ollama]")
    mirror_run(path)
    assert tags(target.host, repository) == expected


def _some_model(models: Path) -> str:
    manifests = models / "manifests" / "registry.ollama.ai" / "library"
    for manifest in sorted(manifests.glob("*/*")):
        if b"docker.distribution" in manifest.read_bytes():
            return f"{manifest.parent.name}:{manifest.name}"
    raise AssertionError("there is no model in the fixture")


def test_a_dialect_is_written_on_the_way(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pushed(source.host, repository, "v1")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "dialect: modelpack")
    journal = tmp_path / "journal"
    first = mirror_run(path, journal=journal).items[0]
    assert (first.outcome, first.source_digest) == ("copied", tags(source.host, repository)["v1"])
    direct = translate(
        f"{source.host}/{repository}:v1",
        f"{source.host}/{repository}:direct",
        ocibridge.ConvertOptions(dialect="modelpack"),
    )
    assert tags(target.host, repository) == {"v1": direct.digest}
    with store(source.host, repository) as there:
        there.delete("direct")
    assert mirror_run(path, journal=journal).items[0].reason == "in sync"
    pushed(source.host, repository, "v1", annotations={"changed": "yes"})
    assert mirror_run(path, journal=journal).items[0].outcome == "copied"


@pytest.mark.parametrize(
    ("models", "reason"),
    [
        ("{roles: [weight]}", None),
        ("{dialects: [cnai, modelpack]}", None),
        ("{dialects: [draft]}", "dialect cnai"),
        ("{roles: [code]}", "no layer of the role code"),
        ("{size: {max: 1KiB}}", "more than 1.0 KiB"),
        ("{size: {min: 1GiB}}", "less than 1.0 GiB"),
        ("{artifactTypes: [application/x]}", "artifact type application/vnd.cnai.model.manifest.v1+json"),
        ("{licences: [Apache-2.0]}", "licence"),
        ("{architectures: [resnet]}", "architecture"),
    ],
)
def test_models_are_chosen_by_what_they_are(
    models: str, reason: str | None, tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    pushed(source.host, repository, "v1")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", f"models: {models}")
    plan = mirror_plan(path)
    outcome, why = outcomes(path)["v1"]
    if reason is None:
        assert (plan.items[0].action, outcome) == ("copy", "copied")
        return
    assert (plan.items[0].action, outcome) == ("skip", "skipped")
    assert reason in why
    assert plan.items[0].reason == why
    assert tags(target.host, repository) == {}


def test_what_is_no_model_has_no_dialect(
    tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    put(source.host, repository, "v1")
    path = simple(tmp_path, f"{source.host}/{repository}", f"{target.host}/{repository}", "models: {dialects: [cnai]}")
    assert outcomes(path)["v1"] == ("skipped", "no model")

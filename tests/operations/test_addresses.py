# SPDX-License-Identifier: Apache-2.0
"""`oci://HOST/…` (Helm, Flux, KServe) and `docker://HOST/…` (skopeo) are registries, wherever a reference is wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.airgap.pack import pack
from ocibridge.airgap.unpack import unpack
from ocibridge.stores.opening import open_store

from ..registry import RegistryServer
from .conftest import FIXTURES, IDENTITY

DIGITS = FIXTURES / "digits-stored.carton"
SCHEMES = ["oci://", "docker://", "OCI://"]


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(registry: RegistryServer, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A repository on `localhost`, and an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return f"{registry.host.replace('127.0.0.1', 'localhost')}/{repository}"


def tags(place: str) -> list[str]:
    with open_store(ocibridge.oci.parse_reference(place)) as store:
        return list(store.tags())


def test_push_reaches_the_registry_and_makes_no_folder(scheme: str, place: str, tmp_path: Path) -> None:
    pushed = ocibridge.push(DIGITS, f"{scheme}{place}:v1")
    assert pushed.reference == f"{place}@{pushed.digest}"
    assert tags(place) == ["v1"]
    assert list(tmp_path.iterdir()) == []
    assert not Path(f"/{place}").exists()


@pytest.mark.parametrize("version", [":v1", "@DIGEST", ":v1@DIGEST"])
def test_what_is_there_is_read(scheme: str, version: str, place: str, tmp_path: Path) -> None:
    pushed = ocibridge.push(DIGITS, f"{place}:v1")
    given = scheme + place + version.replace("DIGEST", pushed.digest)
    assert ocibridge.pull(given, tmp_path / "digits.carton").identity == IDENTITY
    assert ocibridge.inspect(given).source == f"{place}@{pushed.digest}"
    assert ocibridge.verify(given).identity == IDENTITY
    assert ocibridge.volume_check(given).source == f"{place}@{pushed.digest}"


def test_a_copy_has_it_on_both_sides(scheme: str, place: str) -> None:
    pushed = ocibridge.push(DIGITS, f"{place}:v1")
    copied = ocibridge.copy(f"{scheme}{place}:v1", f"{scheme}{place}/copy")
    assert (copied.source, copied.reference) == (f"{place}@{pushed.digest}", f"{place}/copy@{pushed.digest}")
    assert tags(f"{place}/copy") == ["v1"]


def test_a_conversion_has_it_on_both_sides(scheme: str, place: str, tmp_path: Path) -> None:
    done = ocibridge.convert(DIGITS, f"{scheme}{place}:v1")
    assert isinstance(done, ocibridge.ConvertReport)
    assert tags(place) == ["v1"]
    ocibridge.convert(f"{scheme}{place}:v1", f"{scheme}{place}:v2.zip", ocibridge.ConvertOptions(dialect="modelpack"))
    assert tags(place) == ["v1", "v2.zip"]
    ocibridge.convert(f"{scheme}{place}:v1", tmp_path / "digits.carton")
    assert [each.name for each in tmp_path.iterdir()] == ["digits.carton"]


def test_an_image_is_prepared_and_written_down_for_pods(scheme: str, place: str) -> None:
    ocibridge.push(DIGITS, f"{place}:v1")
    prepared = ocibridge.volume_prepare(f"{scheme}{place}:v1")
    assert [tag for tag in tags(place) if not tag.startswith("sha256-")] == ["v1", "v1-image"]
    assert ocibridge.volume_manifest(f"{scheme}{place}:v1").image == f"{place}@{prepared.digest}"


def test_an_archive_is_packed_and_restored(scheme: str, place: str) -> None:
    pushed = ocibridge.push(DIGITS, f"{place}:v1")
    packed = pack([f"{scheme}{place}:v1"], "models.tar")
    assert [each.name for each in packed.references] == [f"{place}:v1"]
    host = place.partition("/")[0]
    for target in (f"{scheme}{host}/mirror", f"{scheme}{host}/mirror/"):
        restored = unpack("models.tar", target, references=[f"{scheme}{place}:v1"])
        assert [each.target for each in restored.references] == [f"{host}/mirror/{place.partition('/')[2]}:v1"]
        assert restored.references[0].digest == pushed.digest
        assert "://" not in restored.target


READERS: list[Callable[[str], object]] = [
    lambda text: ocibridge.push(DIGITS, text),
    lambda text: ocibridge.pull(text, "digits.carton"),
    ocibridge.inspect,
    ocibridge.verify,
    lambda text: ocibridge.copy(text, "oci:copy"),
    lambda text: ocibridge.copy("oci:copy", text),
    lambda text: ocibridge.convert(DIGITS, text),
    lambda text: ocibridge.convert(text, "digits.carton"),
    lambda text: pack([text], "models.tar"),
    ocibridge.volume_check,
    ocibridge.volume_manifest,
]


@pytest.mark.parametrize("call", READERS)
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("oci:///abs/layout:v1", "a layout is oci:/abs/layout:v1"),
        ("https://ghcr.io/org/model:v1", "write ghcr.io/org/model:v1"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    call: Callable[[str], object], text: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ocibridge.InvalidReference) as caught:
        call(text)
    assert caught.value.hint == hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("oci:///abs", "names no registry host; a layout is oci:/abs"),
        (
            "https://ghcr.io/org/",
            "'https://ghcr.io/org/' is a web address, not a place to restore to; write ghcr.io/org",
        ),
        ("oci://localhost/a:v1", "is no place to restore to; write HOST"),
    ],
)
def test_a_place_to_restore_to_that_is_none(target: str, message: str) -> None:
    with pytest.raises(ocibridge.UsageError, match=message):
        unpack("models.tar", target)

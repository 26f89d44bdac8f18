# SPDX-License-Identifier: Apache-2.0
"""`push SOURCE HOST/REPOSITORY:a,b`: one artifact under several tags."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocibridge
from ocibridge.operations.tags import parse_tags

from ..registry import RegistryServer

CARTON = Path(__file__).parents[1] / "fixtures" / "digits.carton"


@pytest.fixture(params=["registry", "oci", "oci-archive"])
def place(request: pytest.FixtureRequest, registry: RegistryServer, repository: str, tmp_path: Path) -> str:
    return f"{registry.host}/{repository}" if request.param == "registry" else f"{request.param}:{tmp_path}/x.tar"


def test_every_tag_leads_to_the_same_artifact(place: str) -> None:
    pushed = ocibridge.push(CARTON, f"{place}:v1,stable,v1.2", ocibridge.PushOptions(also=["image"]))
    assert (pushed.tag, pushed.tags) == ("v1", ["v1", "stable", "v1.2"])
    assert {layer.action for layer in pushed.layers} == {"uploaded"}
    (image,) = pushed.also
    assert image.tags == ["v1-image", "stable-image", "v1.2-image"]
    for tag, companion in zip(pushed.tags, image.tags, strict=True):
        assert ocibridge.verify(f"{place}:{tag}").digest == pushed.digest
        copied = ocibridge.copy(f"{place}:{companion}", f"{place}:copied", ocibridge.CopyOptions(companions=False))
        assert copied.digest == image.digest
    alone = ocibridge.push(CARTON, f"{place}:alone")
    assert (alone.tags, alone.digest) == (["alone"], pushed.digest)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("a,a", "the tag 'a' is given twice; leave out one of the two"),
        ("a,", "the tag '' in"),
        (",a", "the tag '' in"),
        ("a,b c", "the tag 'b c' in"),
        ("a,b@sha256:" + "0" * 64, "is not valid"),
    ],
)
@pytest.mark.parametrize("place", ["localhost:1/x", "oci:lay", "oci-archive:x.tar"])
def test_bad_tags_are_refused_before_anything_happens(place: str, target: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.UsageError) as caught:
        ocibridge.push(tmp_path / "nothing", f"{place}:{target}")
    assert words in str(caught.value)


def test_a_companion_tag_that_is_too_long_is_refused_before_anything_happens(tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1,{'t' * 125}"
    with pytest.raises(ocibridge.UsageError, match="is not valid"):
        ocibridge.push(CARTON, target, ocibridge.PushOptions(also=["image"]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["oci:a,b", "oci-archive:a,b.tar", "oci:/x:1/a,b", "oci:a,b:v1"])
def test_a_comma_in_a_path_is_one_of_the_path(text: str) -> None:
    reference, tags = parse_tags(text)
    assert str(reference) == text
    assert tags == (reference.version,)

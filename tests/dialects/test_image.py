# SPDX-License-Identifier: Apache-2.0
"""Image manifests of the layers of an artifact."""

from __future__ import annotations

import json

import pytest

from ocibridge.dialects.image import ImageLayer, image_layer, image_of, parse_platforms
from ocibridge.errors import FormatError, UsageError
from ocibridge.layers import Encoding, StoredLayer
from ocibridge.model import Role
from ocibridge.oci import Descriptor, sha256_digest

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")
SUBJECT = Descriptor(media_type="application/vnd.oci.image.manifest.v1+json", digest=C, size=7, artifact_type="x/y")
LAYERS = [ImageLayer(A, 1536, Encoding.TAR, A), ImageLayer(B, 20, Encoding.TAR_ZSTD, C)]


def test_every_byte_of_an_image() -> None:
    image = image_of(LAYERS, ["linux/amd64", "linux/arm/v7"], SUBJECT)
    amd, arm = image.platforms
    assert arm.config == (
        b'{"architecture":"arm","os":"linux","variant":"v7","config":{},'
        b'"rootfs":{"type":"layers","diff_ids":["%s","%s"]}}' % (A.encode(), C.encode())
    )
    manifest = json.loads(arm.manifest)
    assert manifest == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": sha256_digest(arm.config),
            "size": len(arm.config),
        },
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": A, "size": 1536},
            {"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", "digest": B, "size": 20},
        ],
    }
    assert list(manifest) == ["schemaVersion", "mediaType", "config", "layers"]
    assert json.loads(image.index) == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            {
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": sha256_digest(each.manifest),
                "size": len(each.manifest),
                "platform": platform,
            }
            for each, platform in (
                (amd, {"architecture": "amd64", "os": "linux"}),
                (arm, {"architecture": "arm", "os": "linux", "variant": "v7"}),
            )
        ],
        "subject": {"mediaType": SUBJECT.media_type, "digest": C, "size": 7},
        "annotations": {"org.ocibridge.sibling": "image"},
    }
    assert image.descriptor.digest == sha256_digest(image.index)
    assert amd.config_descriptor.digest != arm.config_descriptor.digest
    # Changed on purpose only: pods are pinned to it.
    assert image.descriptor.digest == "sha256:12e3f65d065f61ffa1695644c4c823a18cec774cec5ee5c3eab7b37c4cb83854"


def test_an_uncompressed_layer_is_its_own_diff_id_whatever_the_config_says() -> None:
    def stored(encoding: Encoding, diff_id: str | None) -> StoredLayer:
        return StoredLayer(Descriptor(media_type="x/y", digest=A, size=1), encoding, Role.WEIGHT, diff_id=diff_id)

    assert image_layer(stored(Encoding.TAR, B)).diff_id == A
    assert image_layer(stored(Encoding.TAR_GZIP, B)).diff_id == B
    with pytest.raises(FormatError, match="no diff id"):
        image_layer(stored(Encoding.TAR_GZIP, None))


@pytest.mark.parametrize(
    "names", [[], ["linux"], ["linux/"], ["linux/amd64/v1/x"], ["Linux/amd64"], ["a b/c"]], ids=str
)
def test_what_is_no_platform(names: list[str]) -> None:
    with pytest.raises(UsageError, match=r"linux/amd64"):
        parse_platforms(names)


def test_the_order_of_platforms_does_not_count() -> None:
    def digest(*names: str) -> str:
        return image_of(LAYERS, parse_platforms(names), SUBJECT).descriptor.digest

    assert digest("linux/arm64", "linux/amd64", "linux/arm64") == digest("linux/amd64", "linux/arm64")
    assert digest("linux/arm64") != digest("linux/amd64")

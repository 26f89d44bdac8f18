# SPDX-License-Identifier: Apache-2.0
"""Artifacts as other tools write them, in a store: real layers, small."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from ocibridge.io.content import BytesContent
from ocibridge.oci import (
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_EMPTY,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
    Reference,
)
from ocibridge.stores.base import Store
from ocibridge.volume import predict as prediction
from ocibridge.volume.documents import Documents
from ocibridge.volume.options import PLATFORM
from ocibridge.volume.reports import Prediction
from ocibridge.volume.runtimes import parse_runtime

IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
TITLE = "org.opencontainers.image.title"
CNAI, CNCF = "application/vnd.cnai.model.", "application/vnd.cncf.model."
FILES = {"config.json": b'{"a":1}', "sub/w-1.bin": b"W" * 5000, "w-2.bin": b"V" * 5000}
"""The model that all of them hold."""

Packer = Callable[[bytes], bytes]
PACKERS: dict[str, Packer] = {
    "": lambda data: data,
    "+gzip": lambda data: gzip.compress(data, mtime=0),
    "+zstd": zstandard.ZstdCompressor().compress,
}


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(*members: tuple[str, bytes] | tarfile.TarInfo, mode: int = 0o644) -> bytes:
    """A tar archive of files, and of members without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each in members:
            if isinstance(each, tarfile.TarInfo):
                archive.addfile(each)
                continue
            info = tarfile.TarInfo(each[0])
            info.size, info.mode = len(each[1]), mode
            archive.addfile(info, io.BytesIO(each[1]))
    return out.getvalue()


def member(name: str, kind: bytes, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def tars() -> list[bytes]:
    return [tar(each) for each in FILES.items()]


@dataclass
class Bench:
    """Puts artifacts into a store."""

    store: Store

    def blob(self, data: bytes, media_type: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        descriptor = Descriptor.of(data, media_type, dict(annotations) if annotations else None)
        self.store.push_blob(descriptor, BytesContent(data))
        return descriptor.model_dump(by_alias=True, exclude_none=True)

    def document(self, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
        return self.blob(json.dumps(value).encode(), media_type)

    def put(self, document: Mapping[str, Any], tag: str | None) -> dict[str, Any]:
        data = json.dumps(document).encode()
        found = self.store.push_manifest(data, document["mediaType"], tag)
        return {"mediaType": found.media_type, "digest": found.digest, "size": found.size}

    def manifest(
        self,
        tag: str | None,
        config: Mapping[str, Any],
        layers: Sequence[Mapping[str, Any]],
        media_type: str = MEDIA_TYPE_MANIFEST,
        **more: Any,
    ) -> dict[str, Any]:
        document = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers, **more}
        return self.put(document, tag)

    def config(self, diff_ids: Sequence[str] | None, architecture: str = "amd64") -> dict[str, Any]:
        document: dict[str, Any] = {"architecture": architecture, "os": "linux"}
        if diff_ids is not None:
            document["rootfs"] = {"type": "layers", "diff_ids": list(diff_ids)}
        return self.document(document, IMAGE_CONFIG)

    def image(
        self,
        tag: str | None,
        archives: Sequence[bytes] | None = None,
        *,
        suffix: str = "",
        diff_ids: Sequence[str] | None = None,
        architecture: str = "amd64",
        **more: Any,
    ) -> dict[str, Any]:
        """An image of tar archives; of the model, unless told otherwise."""
        archives = tars() if archives is None else archives
        layers = [self.blob(PACKERS[suffix](each), LAYER + suffix) for each in archives]
        config = self.config([digest(each) for each in archives] if diff_ids is None else diff_ids, architecture)
        return self.manifest(tag, config, layers, **more)

    def index(self, tag: str, entries: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
        document = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": list(entries), **more}
        return self.put(document, tag)


def on(descriptor: Mapping[str, Any], platform: str) -> dict[str, Any]:
    system, architecture = platform.split("/")
    return {**descriptor, "platform": {"os": system, "architecture": architecture}}


def model(
    bench: Bench, tag: str | None, prefix: str = CNAI, form: str = ".v1.tar", title: bool = True
) -> dict[str, Any]:
    """As modctl writes it: one file a layer, no listing of ours."""
    space = "org.cnai.model." if prefix == CNAI else "org.cncf.model."
    layers = []
    for path, data in FILES.items():
        kind = "weight.config" if path.endswith(".json") else "weight"
        body = tar((path, data)) if "tar" in form else data
        annotations = {space + "filepath": path, **({TITLE: path} if title else {})}
        layers.append(bench.blob(body, f"{prefix}{kind}{form}", annotations))
    diff_ids = [each["digest"] for each in layers]
    facts = {"descriptor": {"name": "x"}, "config": {}, "modelfs": {"type": "layers", "diffIds": diff_ids}}
    config = bench.document(facts, prefix + "config.v1+json")
    return bench.manifest(tag, config, layers, artifactType=prefix + "manifest.v1+json")


def oras(bench: Bench, tag: str, media_type: str = "application/octet-stream") -> None:
    """`oras push`: bare files; its media type for them is that of an OCI layer unless one is given."""
    layers = [bench.blob(data, media_type, {TITLE: path}) for path, data in FILES.items()]
    config = bench.blob(b"{}", MEDIA_TYPE_EMPTY)
    bench.manifest(tag, config, layers, artifactType="application/vnd.unknown.artifact.v1")


def kep(bench: Bench, tag: str) -> None:
    """The ORAS example of KEP-4639: an image config without rootfs."""
    layers = [bench.blob(each, LAYER) for each in tars()]
    bench.manifest(tag, bench.config(None), layers)


def kitops(bench: Bench, tag: str, suffix: str = "") -> None:
    config = bench.document({"manifestVersion": "1.0.0"}, "application/vnd.kitops.modelkit.config.v1+json")
    kind = f"application/vnd.kitops.modelkit.model.v1.tar{suffix}"
    bench.manifest(tag, config, [bench.blob(PACKERS[suffix](each), kind) for each in tars()])


def docker_model(bench: Bench, tag: str) -> None:
    data = b"GGUF" + b"x" * 100
    rootfs = {"type": "rootfs", "diff_ids": [digest(data)]}
    config = bench.document({"config": {}, "rootfs": rootfs}, "application/vnd.docker.ai.model.config.v0.1+json")
    layer = bench.blob(data, "application/vnd.docker.ai.gguf.v3", {"org.cncf.model.filepath": "model.gguf"})
    bench.manifest(tag, config, [layer])


def ollama(bench: Bench, tag: str) -> None:
    data, template = b"GGUF" + b"x" * 100, b"{{ .Prompt }}"
    rootfs = {"type": "layers", "diff_ids": [digest(data), digest(template)]}
    document = {"model_format": "gguf", "architecture": "amd64", "os": "linux", "rootfs": rootfs}
    config = bench.document(document, "application/vnd.docker.container.image.v1+json")
    layers = [
        bench.blob(data, "application/vnd.ollama.image.model"),
        bench.blob(template, "application/vnd.ollama.image.template"),
    ]
    bench.manifest(tag, config, layers, MEDIA_TYPE_DOCKER_MANIFEST)


def docker_image(bench: Bench, tag: str) -> None:
    config = {
        **bench.config([digest(each) for each in tars()]),
        "mediaType": "application/vnd.docker.container.image.v1+json",
    }
    kind = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    layers = [bench.blob(PACKERS["+gzip"](each), kind) for each in tars()]
    bench.manifest(tag, config, layers, MEDIA_TYPE_DOCKER_MANIFEST)


def nothing_for_us(bench: Bench, tag: str) -> None:
    bench.index(tag, [on(bench.image(None, architecture="arm64"), "linux/arm64")])


def both_platforms(bench: Bench, tag: str) -> None:
    bench.index(
        tag,
        [on(bench.image(None), "linux/amd64"), on(bench.image(None, architecture="arm64"), "linux/arm64")],
    )


def model_first(bench: Bench, tag: str) -> None:
    """An index with a model artifact in it before the image."""
    bench.index(tag, [model(bench, None), on(bench.image(None), "linux/amd64")])


def model_only(bench: Bench, tag: str) -> None:
    bench.index(tag, [model(bench, None)])


def unnamed_platform(bench: Bench, tag: str) -> None:
    """An index whose entry leaves it to the config to say what it is for."""
    bench.index(tag, [bench.image(None)])


def too_few_diff_ids(bench: Bench, tag: str) -> None:
    bench.image(tag, diff_ids=[digest(each) for each in tars()[:2]])


def other_diff_ids(bench: Bench, tag: str) -> None:
    bench.image(tag, diff_ids=[digest(each) for each in reversed(tars())])


def other_diff_ids_gzip(bench: Bench, tag: str) -> None:
    bench.image(tag, suffix="+gzip", diff_ids=[digest(each) for each in reversed(tars())])


def model_types_image_config(bench: Bench, tag: str) -> None:
    """CNAI layers under an image config."""
    layers = [bench.blob(each, CNAI + "weight.v1.tar") for each in tars()]
    bench.manifest(tag, bench.config([digest(each) for each in tars()]), layers)


def model_config_with_rootfs(bench: Bench, tag: str) -> None:
    """One manifest for both worlds, which CRI-O does not take as an image."""
    layers = [bench.blob(each, LAYER) for each in tars()]
    diff_ids = [each["digest"] for each in layers]
    document = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    config = bench.document(document | {"modelfs": {"type": "layers", "diffIds": diff_ids}}, CNAI + "config.v1+json")
    bench.manifest(tag, config, layers, artifactType=CNAI + "manifest.v1+json")


def with_attestation(bench: Bench, tag: str) -> None:
    """As buildkit writes it: a statement about the image stands beside it, for a platform that there is not."""
    statement = bench.blob(b"{}", "application/vnd.in-toto+json")
    about = bench.manifest(None, bench.config([], "unknown"), [statement])
    bench.index(tag, [on(about, "unknown/unknown"), on(bench.image(None), "linux/amd64")])


def image_types_empty_config(bench: Bench, tag: str) -> None:
    layers = [bench.blob(each, LAYER, {TITLE: f"{number}.tar"}) for number, each in enumerate(tars())]
    config = bench.blob(b"{}", MEDIA_TYPE_EMPTY)
    bench.manifest(tag, config, layers, artifactType="application/vnd.example")


def whiteouts(bench: Bench, tag: str) -> None:
    bench.image(tag, [*tars(), tar((".wh.config.json", b""), ("sub/.wh..wh..opq", b""))])


def two_writers(bench: Bench, tag: str) -> None:
    bench.image(tag, [tar(("config.json", b"one")), tar(("config.json", b"other"))])


def same_twice(bench: Bench, tag: str) -> None:
    first, *rest = tars()
    bench.image(tag, [first, *rest, tar(("config.json", FILES["config.json"]), ("more", b"1"))])


def many_layers(bench: Bench, tag: str, count: int = 200) -> None:
    bench.image(tag, [tar((f"f{number:04}", b"%d" % number)) for number in range(count)])


ARTIFACTS: dict[str, Callable[[Bench, str], object]] = {
    "cnai": model,
    "cnai-raw": lambda bench, tag: model(bench, tag, form=".v1.raw"),
    "modelpack": lambda bench, tag: model(bench, tag, CNCF),
    "modelpack-raw-untitled": lambda bench, tag: model(bench, tag, CNCF, ".v1.raw", title=False),
    "image": lambda bench, tag: bench.image(tag),
    "image-gzip": lambda bench, tag: bench.image(tag, suffix="+gzip"),
    "image-zstd": lambda bench, tag: bench.image(tag, suffix="+zstd"),
    "image-of-arm64": lambda bench, tag: bench.image(tag, architecture="arm64"),
    "seed3": lambda bench, tag: bench.image(tag, artifactType=CNAI + "manifest.v1+json"),
    "index": both_platforms,
    "index-model-first": model_first,
    "index-model-only": model_only,
    "index-unnamed-platform": unnamed_platform,
    "index-without-platform": nothing_for_us,
    "oras": oras,
    "oras-default-type": lambda bench, tag: oras(bench, tag, LAYER),
    "kep-example": kep,
    "kitops": kitops,
    "kitops-gzip": lambda bench, tag: kitops(bench, tag, "+gzip"),
    "docker-model": docker_model,
    "docker-image": docker_image,
    "ollama": ollama,
    "too-few-diff-ids": too_few_diff_ids,
    "other-diff-ids": other_diff_ids,
    "other-diff-ids-gzip": other_diff_ids_gzip,
    "model-types-image-config": model_types_image_config,
    "model-config-with-rootfs": model_config_with_rootfs,
    "index-attestation": with_attestation,
    "image-types-empty-config": image_types_empty_config,
    "whiteouts": whiteouts,
    "two-writers": two_writers,
    "same-twice": same_twice,
    "many-layers": many_layers,
}
"""Name of an artifact, and what pushes it under a tag."""


def predict(
    store: Store,
    reference: Reference | str,
    runtime: str,
    version: str | None = None,
    platform: str = PLATFORM,
    *,
    read: bool = False,
) -> Prediction:
    """The prediction for a reference, tag or digest."""
    documents = Documents(store)
    found = documents.named(reference if isinstance(reference, str) else reference.version)
    return prediction.predict(documents, found, parse_runtime(runtime, version), platform, read)

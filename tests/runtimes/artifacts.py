# SPDX-License-Identifier: Apache-2.0
"""Artifacts of many tools and dialects. All hold the same kind of model, each with bytes of its own: a runtime unpacks
equal layers once, so that a broken artifact would mount if a sound one with its bytes came before it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import ocibridge
from ocibridge.oci import MEDIA_TYPE_DOCKER_MANIFEST, MEDIA_TYPE_EMPTY, sha256_digest

from .containerd import ARCHITECTURE
from .engines import run, unmount_below
from .podman import containers_env
from .publishing import IMAGE, Publisher, image_config, tar

Files = Mapping[str, bytes]
Build = Callable[[Publisher, Path, str], Files]
"""Publishes an artifact under a tag; gives the files that its author wants to be seen."""

OTHER = {"amd64": "arm64"}.get(ARCHITECTURE, "amd64")
CNAI = "application/vnd.cnai.model."
KITOPS = "application/vnd.kitops.modelkit."


def model(tag: str) -> dict[str, bytes]:
    """The files of a model."""
    return {"config.json": b'{"name": "%s"}' % tag.encode(), "sub/model.safetensors": tag.encode() * 1000}


def tars(tag: str) -> tuple[bytes, ...]:
    """Its files, a tar each."""
    return tuple(tar({name: data}) for name, data in model(tag).items())


def folder(tag: str, place: Path) -> Path:
    """Its files on disk."""
    for name, data in model(tag).items():
        path = place / tag / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place / tag


def plain_image(
    publisher: Publisher, tag: str | None, name: str, architecture: str = ARCHITECTURE
) -> dict[str, object]:
    """An image as it should be."""
    layers = tars(name)
    config = publisher.config(image_config(*layers, architecture=architecture))
    return publisher.manifest(tag, config, publisher.layers(*layers))


def platform(descriptor: dict[str, object], architecture: str) -> dict[str, object]:
    """An entry of an index."""
    return {**descriptor, "platform": {"os": "linux", "architecture": architecture}}


def ocibridge_tar(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}")
    return model(tag)


def ocibridge_raw_files(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}", ocibridge.PushOptions(layers="raw-files"))
    return model(tag)


def ocibridge_raw(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}", ocibridge.PushOptions(layers="raw"))
    return model(tag)


def ocibridge_zstd(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}", ocibridge.PushOptions(compress="zstd"))
    return model(tag)


def ocibridge_modelpack(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}", ocibridge.PushOptions(dialect="modelpack"))
    return model(tag)


def ocibridge_draft(publisher: Publisher, place: Path, tag: str) -> Files:
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}", ocibridge.PushOptions(dialect="draft"))
    return model(tag)


def ocibridge_image(publisher: Publisher, place: Path, tag: str) -> Files:
    """The tag is that of the image, not of the artifact."""
    ocibridge.push(
        folder(tag, place), f"{publisher.name}:{tag.removesuffix('-image')}", ocibridge.PushOptions(also=["image"])
    )
    return model(tag)


def ocibridge_raw_files_image(publisher: Publisher, place: Path, tag: str) -> Files:
    options = ocibridge.PushOptions(layers="raw-files", also=["image"])
    ocibridge.push(folder(tag, place), f"{publisher.name}:{tag.removesuffix('-image')}", options)
    return model(tag)


def skopeo_docker(publisher: Publisher, place: Path, tag: str) -> Files:
    plain_image(publisher, f"{tag}-before", tag)
    source, target = f"docker://{publisher.name}:{tag}-before", f"docker://{publisher.name}:{tag}"
    run("skopeo", "copy", "--src-tls-verify=false", "--dest-tls-verify=false", "--format=v2s2", source, target)
    return model(tag)


def buildah_image(publisher: Publisher, place: Path, tag: str) -> Files:
    home = place / "buildah"
    home.mkdir()
    env = containers_env(home)
    (folder(tag, place) / "Dockerfile").write_text("FROM scratch\nCOPY config.json /\nCOPY sub /sub/\n")
    run("buildah", "bud", "--isolation=chroot", "--layers", "--tag", "built", place / tag, env=env)
    run("buildah", "push", "--tls-verify=false", "built", f"docker://{publisher.name}:{tag}", env=env)
    unmount_below(home)
    return model(tag)


def oras_files(publisher: Publisher, place: Path, tag: str) -> Files:
    run("oras", "push", "--plain-http", f"{publisher.name}:{tag}", "config.json:text/json", folder=folder(tag, place))
    return {"config.json": model(tag)["config.json"]}


def oras_files_outside(publisher: Publisher, place: Path, tag: str) -> Files:
    """Named by an absolute path, which CRI-O takes as one below the mount."""
    source = folder(tag, place) / "config.json"
    run("oras", "push", "--plain-http", "--disable-path-validation", f"{publisher.name}:{tag}", f"{source}:text/json")
    return {str(source)[1:]: model(tag)["config.json"]}


def oras_layers_without_diff_ids(publisher: Publisher, place: Path, tag: str) -> Files:
    """The example of the enhancement proposal for image volumes (KEP-4639)."""
    (place / "empty.json").write_text("{}")
    (place / "layer.tar").write_bytes(tar(model(tag)))
    config = f"{place}/empty.json:{IMAGE}config.v1+json"
    layer = f"{place}/layer.tar:{IMAGE}layer.v1.tar"
    command = ("oras", "push", "--plain-http", "--disable-path-validation", "--config", config)
    run(*command, f"{publisher.name}:{tag}", layer)
    return model(tag)


def crane_append(publisher: Publisher, place: Path, tag: str) -> Files:
    (place / "layer.tar").write_bytes(tar(model(tag)))
    layer, target = f"--new_layer={place}/layer.tar", f"--new_tag={publisher.name}:{tag}"
    run("crane", "append", "--insecure", "--oci-empty-base", layer, target)
    return model(tag)


def kitops(publisher: Publisher, place: Path, tag: str) -> Files:
    config = publisher.config({"manifestVersion": "1.0.0", "package": {"name": tag}}, f"{KITOPS}config.v1+json")
    packed = gzip.compress(tar(model(tag)), mtime=0)
    publisher.manifest(tag, config, [publisher.blob(packed, f"{KITOPS}model.v1.tar+gzip")])
    return model(tag)


def docker_model(publisher: Publisher, place: Path, tag: str) -> Files:
    data = b"GGUF" + tag.encode()
    value = {"config": {"format": "gguf"}, "rootfs": {"type": "rootfs", "diff_ids": [sha256_digest(data)]}}
    config = publisher.config(value, "application/vnd.docker.ai.model.config.v0.1+json")
    named = {"org.cncf.model.filepath": "model.gguf"}
    publisher.manifest(tag, config, [publisher.blob(data, "application/vnd.docker.ai.gguf.v3", annotations=named)])
    return {"model.gguf": data}


def ollama(publisher: Publisher, place: Path, tag: str) -> Files:
    data = b"GGUF" + tag.encode()
    value = image_config() | {"rootfs": {"type": "layers", "diff_ids": [sha256_digest(data)]}}
    config = publisher.config(value, "application/vnd.docker.container.image.v1+json")
    layers = [publisher.blob(data, "application/vnd.ollama.image.model")]
    publisher.manifest(tag, config, layers, mediaType=MEDIA_TYPE_DOCKER_MANIFEST)
    return {"model.gguf": data}


def gzip_layers(publisher: Publisher, place: Path, tag: str) -> Files:
    layers = tars(tag)
    publisher.manifest(tag, publisher.config(image_config(*layers)), publisher.layers(*layers, packed=True))
    return model(tag)


def diff_ids_in_another_order(publisher: Publisher, place: Path, tag: str) -> Files:
    layers = tars(tag)
    publisher.manifest(tag, publisher.config(image_config(*layers[::-1])), publisher.layers(*layers))
    return model(tag)


def diff_id_missing(publisher: Publisher, place: Path, tag: str) -> Files:
    layers = tars(tag)
    publisher.manifest(tag, publisher.config(image_config(layers[0])), publisher.layers(*layers))
    return model(tag)


def model_config_with_image_layers(publisher: Publisher, place: Path, tag: str) -> Files:
    config = publisher.config({"descriptor": {"name": tag}, "config": {}, "modelfs": {}}, f"{CNAI}config.v1+json")
    publisher.manifest(tag, config, publisher.layers(*tars(tag)), artifactType=f"{CNAI}manifest.v1+json")
    return model(tag)


def model_config_with_diff_ids(publisher: Publisher, place: Path, tag: str) -> Files:
    """An image but for the type of its config."""
    layers = tars(tag)
    config = publisher.config(image_config(*layers), f"{CNAI}config.v1+json")
    publisher.manifest(tag, config, publisher.layers(*layers), artifactType=f"{CNAI}manifest.v1+json")
    return model(tag)


def empty_config_with_image_layers(publisher: Publisher, place: Path, tag: str) -> Files:
    config = publisher.blob(b"{}", MEDIA_TYPE_EMPTY)
    publisher.manifest(tag, config, publisher.layers(*tars(tag)), artifactType="application/vnd.example")
    return model(tag)


def index_of_another_platform(publisher: Publisher, place: Path, tag: str) -> Files:
    publisher.index(tag, platform(plain_image(publisher, None, tag, OTHER), OTHER))
    return model(tag)


def image_of_another_platform(publisher: Publisher, place: Path, tag: str) -> Files:
    plain_image(publisher, tag, tag, OTHER)
    return model(tag)


def index_with_the_artifact_first(publisher: Publisher, place: Path, tag: str) -> Files:
    pushed = ocibridge.push(folder(tag, place), f"{publisher.name}:{tag}-artifact")
    publisher.index(tag, publisher.published(pushed.digest), platform(plain_image(publisher, None, tag), ARCHITECTURE))
    return model(tag)


def one_file_in_two_layers(publisher: Publisher, place: Path, tag: str) -> Files:
    layers = (*tars(tag), tar({"config.json": b"{}"}))
    publisher.manifest(tag, publisher.config(image_config(*layers)), publisher.layers(*layers))
    return model(tag)


def a_file_that_hides_another(publisher: Publisher, place: Path, tag: str) -> Files:
    """An image may mean it so."""
    layers = (*tars(tag), tar({".wh.config.json": b""}))
    publisher.manifest(tag, publisher.config(image_config(*layers)), publisher.layers(*layers))
    return {name: data for name, data in model(tag).items() if name != "config.json"}


BUILDS: tuple[Build, ...] = (
    ocibridge_tar,
    ocibridge_raw,
    ocibridge_raw_files,
    ocibridge_zstd,
    ocibridge_modelpack,
    ocibridge_draft,
    ocibridge_image,
    ocibridge_raw_files_image,
    skopeo_docker,
    buildah_image,
    oras_files,
    oras_files_outside,
    oras_layers_without_diff_ids,
    crane_append,
    kitops,
    docker_model,
    ollama,
    gzip_layers,
    diff_ids_in_another_order,
    diff_id_missing,
    model_config_with_image_layers,
    model_config_with_diff_ids,
    empty_config_with_image_layers,
    index_of_another_platform,
    image_of_another_platform,
    index_with_the_artifact_first,
    one_file_in_two_layers,
    a_file_that_hides_another,
)

# SPDX-License-Identifier: Apache-2.0
"""Reading: the models of the fixtures, every type of layer, and what is refused."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, IntegrityError, LimitError, OcibridgeError, SourceError
from ocibridge.formats.ollama.local import read_local
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.formats.ollama.original import original_manifest
from ocibridge.formats.ollama.reader import read_ollama
from ocibridge.io.content import BytesContent, Content, read_all
from ocibridge.model import Role
from ocibridge.oci import Descriptor
from ocibridge.settings import Limits

from ..build import contents
from .samples import GGUF, MODELS, NAME, Blobs, P, Row, foreign, gguf, manifest, model

OPTIONS = OllamaReadOptions()
CONTAINER = json.dumps({"w": {"dtype": "F16", "shape": [2, 30], "data_offsets": [0, 120]}}).encode()
CONTAINER = len(CONTAINER).to_bytes(8, "little") + CONTAINER + bytes(120)
MAIN: Row = ("model", GGUF)


@pytest.mark.parametrize("name", MODELS)
def test_the_models_of_the_fixtures(store: Path, name: str) -> None:
    found = read_local(name, OPTIONS, store)
    digest = MODELS[name]["manifest_digest"]
    assert found.identity == digest.replace("sha256:", "ollama:")
    assert found.origin["ollama.manifest_digest"] == digest
    assert found.origin["ollama.ref"].endswith(name)
    assert found.warnings == ()
    files = contents(found)
    assert files["ollama/manifest.json"] == (store / MODELS[name]["path"]).read_bytes()
    assert all(file.sha256 and not file.guessed for file in found.files)
    assert len(files) == MODELS[name]["layers"] + (1 if "layers-only" in name else 2)
    for file in found.files[1:]:
        assert (store / "blobs" / f"sha256-{file.sha256}").read_bytes() == files[file.path]


def test_metadata_from_gguf(store: Path) -> None:
    found = read_local("tinyllama-test", OPTIONS, store)
    info = found.info
    assert (info.name, info.title, info.family, info.format) == ("tinyllama-test", "TinyLlama Test", "llama", "gguf")
    assert (info.param_size, info.precision, info.quantization) == ("112.4K", None, "Q8_0")
    assert info.licenses == ("MIT",)
    assert found.origin["gguf.context_length"] == "256"
    assert {file.path: file.role for file in found.files} == {
        "ollama/manifest.json": Role.WEIGHT_CONFIG,
        "ollama/config.json": Role.WEIGHT_CONFIG,
        "model.gguf": Role.WEIGHT,
        "ollama/template": Role.WEIGHT_CONFIG,
        "ollama/system": Role.WEIGHT_CONFIG,
        "LICENSE": Role.DOC,
        "ollama/params.json": Role.WEIGHT_CONFIG,
    }
    assert found.files[2].origin == {"ollama.mediatype": P + "model", "ollama.index": "0"}


@pytest.mark.parametrize("name", ["x/safetensors-test", "x/layers-only-test", "x/layers-only-test:quoted"])
def test_metadata_from_tensors(store: Path, name: str) -> None:
    found = read_local(name, OPTIONS, store)
    assert (found.info.family, found.info.format) == ("olmoe", "safetensors")
    assert (found.info.param_size, found.info.precision) == ("35.9K", "bf16")
    suffix = "safetensors" if "safetensors" in name else "bin"
    tensor = next(file for file in found.files if file.path == f"tensors/model.norm.weight.{suffix}")
    assert tensor.origin["ollama.name"] == "model.norm.weight"
    assert tensor.origin.get("ollama.dtype") == (None if suffix == "safetensors" else "BF16")
    assert tensor.origin["ollama.mediatype"].startswith(P + "tensor")


def paths(rows: list[Row], config: dict[str, Any] | None = None) -> list[str]:
    return [file.path for file in model(rows, config).files][1:]


def test_every_type_has_its_path() -> None:
    rows: list[Row] = [
        *(MAIN, ("adapter", b"a"), ("adapter", b"b"), ("projector", b"c"), ("draft", b"d"), ("template", b"e")),
        *(("template; name=plain", b"f"), ("system", b"g"), ("params", b"{}"), ("messages", b"[]"), ("license", b"h")),
        *(("license", b"i"), ("license", b"j"), ("tokenizer", b"k"), ("tokenizer.config", b"l"), ("embed", b"m")),
        *(("json", b"n", {"name": "vae/config.json"}), ("tensor", CONTAINER, {"name": "w/x"}), ("future.thing", b"o")),
        *(("tensor; name=raw; dtype=F32; shape=1", b"1234"), ("json", b"p"), ("text/plain", b"q")),
    ]
    assert paths(rows, {}) == [
        *("ollama/config.json", "model.gguf", "adapter-1.gguf", "adapter-2.gguf", "mmproj-1.gguf", "draft.gguf"),
        *("ollama/template", "ollama/template.plain", "ollama/system", "ollama/params.json", "ollama/messages.json"),
        *("LICENSE", "LICENSE.1", "LICENSE.2", "tokenizer.json", "tokenizer_config.json", "ollama/unknown-15"),
        *("vae/config.json", "tensors/w%2Fx.safetensors", "ollama/unknown-18", "tensors/raw.bin"),
        *("ollama/unknown-20", "ollama/unknown-21"),
    ]
    found = model(rows, {})
    assert [file.path for file in found.files if file.guessed] == [f"ollama/unknown-{n}" for n in (15, 18, 20, 21)]
    assert len(found.warnings) == 4
    assert paths([MAIN, ("model", b"x"), ("prompt", b"y")]) == [
        *("model-00001-of-00002.gguf", "model-00002-of-00002.gguf", "ollama/template"),
    ]


def test_repeated_rows_share_a_file_or_have_one_each() -> None:
    row: Row = ("template", b"t")
    found = {file.path: file for file in model([MAIN, row, MAIN, row, ("license", b"t")]).files}
    assert found["ollama/template"].origin["ollama.index"] == "1,3"
    assert found["model-00001-of-00002.gguf"].sha256 == found["model-00002-of-00002.gguf"].sha256
    assert found["LICENSE"].sha256 == found["ollama/template"].sha256


def test_each_blob_is_asked_for_once_and_only_its_header_is_read() -> None:
    opened: list[tuple[str, int]] = []

    class ProgressReader(BytesContent):
        def open(self, offset: int = 0) -> Any:
            opened.append((hashlib.sha256(self.data).hexdigest(), offset))
            return super().open(offset)

    blobs = Blobs()
    asked: list[str] = []

    def give(descriptor: Descriptor) -> Content:
        asked.append(descriptor.digest)
        return ProgressReader(blobs.data[descriptor.digest])

    data = manifest(blobs, [MAIN, ("adapter", b"a"), ("license", b"l")], {})
    found = read_ollama(data, NAME, give, OPTIONS)
    assert sorted(asked) == sorted(blobs.data)
    headers = {file.sha256 for file in found.files if file.path in ("model.gguf", "ollama/config.json")}
    assert {sha256 for sha256, _ in opened} == headers


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no weights"),
        ([("template", b"x"), ("license", b"y")], "no weights"),
        ([MAIN, ("template", b"x"), ("prompt", b"y")], "two different layers"),
        ([MAIN, ("system", b"x"), ("system", b"y")], "two different layers"),
        ([("tensor", b"x", {"name": "a"}), ("tensor", b"y", {"name": "a"})], "two different layers"),
        ([("tensor", b"x", {"name": "a"}), ("tensor", b"y", {"name": "A"})], "collides"),
        *(([MAIN, ("json", b"x", {"name": name})], "the name") for name in ("../x", "/etc/x", "a//b", "a/.", "..")),
        ([MAIN, ("json", b"x", {"name": "ollama/manifest.json"})], "appears twice"),
        ([MAIN, ("json", b"x", {"name": "model.gguf"})], "two different layers"),
        ([MAIN, ("json", b"x", {"name": "model.gguf/y"})], "both a file and a folder"),
    ],
)
def test_layers_that_are_refused(rows: list[Row], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        model(rows)


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "..", ".wh.x", "a\\b", "C:x", "a\0b\n", "%2e%2e", "ä/ö", "x" * 90]
)
def test_tensor_names_make_harmless_paths(name: str) -> None:
    (tensor,) = model([("tensor", b"x", {"name": name})]).files[1:]
    folder, _, base = tensor.path.partition("/")
    assert folder == "tensors"
    assert not set(base) & set("/\\:\0\n")
    assert base not in (".", "..")
    assert not base.startswith(".")
    assert tensor.origin["ollama.name"].isprintable()


@pytest.mark.parametrize("stub", [{"remote_host": "https://ollama.com:443"}, {"remote_model": "gpt-oss:120b"}])
def test_cloud_stubs_are_refused(stub: dict[str, str]) -> None:
    with pytest.raises(FormatError, match="runs on"):
        model([], stub)
    assert model([MAIN], stub).files  # with weights it is no stub


def test_a_config_that_is_not_the_blob() -> None:
    blobs = Blobs()
    data = manifest(blobs, [MAIN], {"os": "linux"})
    digest = json.loads(data)["config"]["digest"]
    for wrong in (b'{"os": "Linux"}', b"x"):
        blobs.data[digest] = wrong
        with pytest.raises(IntegrityError):
            read_ollama(data, NAME, blobs, OPTIONS)
    with pytest.raises(LimitError):
        read_ollama(data, NAME, blobs, OllamaReadOptions(limits=Limits(config=5)))


def test_what_cannot_be_read_is_carried_with_a_warning() -> None:
    raw: Row = ("tensor; name=a; dtype=F32; shape=x", b"1234")
    broken: Row = ("tensor", CONTAINER[:-1], {"name": "b"})
    found = model([("model", b"GGML"), raw, broken], {"model_families": 1})
    assert len(found.warnings) == 4
    assert found.info.name == "test"
    assert len(found.files) == 5
    assert len(model([("tensor; name=a; dtype=F32; shape=" + ",".join(["9" * 19] * 5), b"1")]).warnings) == 1


@pytest.mark.parametrize(
    ("config", "size", "precision", "quantization"),
    [
        ({"model_type": "136.73M", "file_type": "Q4_K_M"}, "136.7M", None, "Q4_K_M"),
        ({"model_type": "8.0B", "file_type": "BF16"}, "8B", "bf16", None),
        ({"model_type": "", "file_type": "unknown"}, None, None, None),
        ({"model_type": "huge", "file_type": "F32"}, None, "fp32", None),
    ],
)
def test_the_config_says_what_headers_do_not(
    config: dict[str, str], size: str | None, precision: str | None, quantization: str | None
) -> None:
    info = model([("model", b"opaque")], {"model_family": "llama", "model_format": "gguf", **config}).info
    assert (info.param_size, info.precision, info.quantization) == (size, precision, quantization)
    assert (info.family, info.format) == ("llama", "gguf")


def test_quantised_tensors_do_not_count_as_parameters() -> None:
    header = json.dumps(
        {"__metadata__": {"quant_type": "int4"}, "w": {"dtype": "U32", "shape": [30], "data_offsets": [0, 120]}}
    ).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(120)
    info = model([("tensor", data, {"name": "w"})], {"model_type": "1.5B"}).info
    assert (info.param_size, info.precision, info.quantization) == ("1.5B", None, "int4")


def test_local_paths_in_from_are_told() -> None:
    rows: list[Row] = [("model", GGUF, {"from": "/home/me/secret.gguf"}), ("license", b"l", {"from": "llama3:8b"})]
    found = model(rows)
    assert "'/home/me/secret.gguf'" in found.warnings[0]
    assert not any("secret" in value for file in found.files for value in (*file.origin.values(), file.path))
    assert not any("secret" in value for value in found.origin.values())
    for path in ("C:\\x", "~/x", "./x", "..\\x", "file:///x", "\\\\host\\x"):
        assert len(model([("model", GGUF, {"from": path})]).warnings) == 1
    for name in ("llama3", "hf.co/x/y:z", ""):
        assert not model([("model", GGUF, {"from": name})]).warnings


def test_from_is_stripped_on_demand(store: Path) -> None:
    options = OllamaReadOptions(strip_from=True)
    plain = read_local("mylab/tinyllama-test:q8", OPTIONS, store)
    stripped = read_local("mylab/tinyllama-test:q8", options, store)
    assert plain.identity != stripped.identity
    assert "another ID" in stripped.warnings[0]
    data = read_all(stripped.files[0].content)
    assert b'"from"' not in data
    assert data == read_all(plain.files[0].content).replace(b',"from":"tinyllama-test:latest"', b"")
    assert stripped.identity == "ollama:" + hashlib.sha256(data).hexdigest()
    assert stripped.files[1:] != plain.files[1:] or contents(stripped)["model.gguf"] == contents(plain)["model.gguf"]
    assert read_local("tinyllama-test", options, store).warnings == ()


def test_the_original_manifest_for_a_registry(store: Path) -> None:
    for name in MODELS:
        found = read_local(name, OPTIONS, store)
        if "layers-only" in name:
            with pytest.raises(FormatError, match="only layers"):
                original_manifest(found)
            continue
        data = original_manifest(found)
        assert data == (store / MODELS[name]["path"]).read_bytes()
        document = json.loads(data)
        named = {row["digest"] for row in (document["config"], *document["layers"])}
        assert named <= {f"sha256:{file.sha256}" for file in found.files}
    with pytest.raises(FormatError, match="no Ollama manifest"):
        original_manifest(foreign({"a.gguf": GGUF}))


rows_of = st.lists(
    st.tuples(
        st.sampled_from(["model", "tensor", "json", "template", "license", "config", "x; name=y", "tensor; name=a"]),
        st.binary(max_size=12) | st.sampled_from([GGUF, GGUF[:40], CONTAINER, b"{}", b"[1]"]),
        st.fixed_dictionaries({}, optional={"name": st.text(max_size=8), "from": st.text(max_size=4)}),
    ),
    max_size=5,
)


@given(rows_of, st.none() | st.dictionaries(st.sampled_from(["model_type", "os", "remote_host"]), st.text(max_size=6)))
def test_any_layers_are_read_or_refused(rows: Any, config: Any) -> None:
    with suppress(OcibridgeError):
        found = model(rows, config)
        contents(found)
        assert found.files[0].path == "ollama/manifest.json"


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes, blob: bytes) -> None:
    with suppress(OcibridgeError):
        read_ollama(data, NAME, lambda descriptor: BytesContent(blob), OPTIONS)


def test_a_blob_that_is_missing_or_of_another_size() -> None:
    blobs = Blobs()
    data = manifest(blobs, [MAIN])
    (digest,) = blobs.data
    with pytest.raises(IntegrityError, match="bytes"):
        read_ollama(data, NAME, lambda descriptor: BytesContent(b"x"), OPTIONS)
    del blobs.data[digest]
    with pytest.raises(SourceError, match="missing"):
        read_ollama(data, NAME, blobs, OPTIONS)


def test_the_licence_and_name_of_a_header() -> None:
    info = model([("model", gguf(general__license="apache-2.0", general__name="N", general__organization="O"))]).info
    assert (info.licenses, info.title, info.vendor) == (("Apache-2.0",), "N", "O")
    info = model([("model", gguf(general__license="llama3", general__name="a\nb"))]).info
    assert (info.licenses, info.title) == ((), None)

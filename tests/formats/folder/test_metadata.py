# SPDX-License-Identifier: Apache-2.0
"""What a folder says about its model; `safetensors` and `gguf` write the weights."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ocibridge.formats.folder import FolderFormat
from ocibridge.formats.folder.metadata import MAX_TEXT, describe
from ocibridge.formats.folder.options import FolderReadOptions
from ocibridge.io.content import BytesContent
from ocibridge.model import Model, ModelFile, Role
from ocibridge.settings import DEFAULT_LIMITS, Limits


def read(path: Path) -> Model:
    return FolderFormat().read(path, FolderReadOptions())


def config(path: Path, **values: Any) -> None:
    (path / "config.json").write_text(json.dumps(values), encoding="utf-8")


def tensors(path: Path, count: int = 1000, dtype: Any = np.float32, name: str = "w") -> None:
    path.parent.mkdir(exist_ok=True)
    save_file({name: np.zeros(count, dtype)}, path)


def write_gguf(path: Path, file_type: int | None = 7, count: int = 2000, **strings: Any) -> None:
    writer = gguf.GGUFWriter(path, strings.pop("architecture", "llama"))
    if file_type is not None:
        writer.add_file_type(file_type)
    for key, value in strings.items():
        name = f"general.{key}" if key != "context_length" else "llama.context_length"
        (writer.add_uint32 if isinstance(value, int) else writer.add_string)(name, value)
    writer.add_tensor("w", np.zeros(count, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class TestSafetensors:
    def test_one_file_and_its_configuration(self, tmp_path: Path) -> None:
        tensors(tmp_path / "model.safetensors", 136_730)
        config(
            tmp_path,
            model_type="bert",
            transformers_version="4.40.0",
            max_position_embeddings=512,
            _name_or_path="/home/somebody/runs/bert-tiny/",
        )
        (tmp_path / "README.md").write_text(
            "---\nlicense: apache-2.0\nbase_model:\n- x/y\npipeline_tag: fill-mask\nauthors: [A, B]\n---\n"
        )
        model = read(tmp_path)
        info = model.info
        assert (info.name, info.family, info.architecture) == ("bert-tiny", "bert", "transformer")
        assert (info.format, info.precision, info.param_size) == ("safetensors", "fp32", "136.7K")
        assert (info.licenses, info.authors, info.quantization) == (("Apache-2.0",), ("A", "B"), None)
        assert model.origin == {
            "folder.layout": "huggingface",
            "folder.base_model": "x/y",
            "folder.context_length": "512",
            "folder.task": "fill-mask",
        }
        assert model.warnings == ()

    def test_the_same_weights_in_other_files_count_once(self, tmp_path: Path) -> None:
        tensors(tmp_path / "model.safetensors", 1000)
        tensors(tmp_path / "model.fp16.safetensors", 1000, np.float16)
        tensors(tmp_path / "onnx" / "x.safetensors", 9000)
        (tmp_path / "pytorch_model.bin").write_bytes(b"x")
        assert (read(tmp_path).info.param_size, read(tmp_path).info.precision) == ("1K", "fp32")

    def test_alternatives_say_what_they_agree_in(self, tmp_path: Path) -> None:
        tensors(tmp_path / "a.safetensors", 1000)
        tensors(tmp_path / "b.safetensors", 1000, np.float16)
        assert (read(tmp_path).info.param_size, read(tmp_path).info.precision) == ("1K", None)
        tensors(tmp_path / "b.safetensors", 2000, np.float32)
        assert (read(tmp_path).info.param_size, read(tmp_path).info.precision) == (None, "fp32")

    def test_shards_by_name(self, tmp_path: Path) -> None:
        tensors(tmp_path / "x-00001-of-00002.safetensors", 1000)
        model = read(tmp_path)
        assert model.info.param_size is None
        assert model.warnings == ("'x' has 2 shards by their names, and 1 of them are here",)
        tensors(tmp_path / "x-00002-of-00002.safetensors", 3000)
        assert read(tmp_path).info.param_size == "4K"

    def test_shards_by_index(self, tmp_path: Path) -> None:
        tensors(tmp_path / "one.safetensors", 1000)
        tensors(tmp_path / "two.safetensors", 3000)
        tensors(tmp_path / "other.safetensors", 9000)
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
        assert read(tmp_path).info.param_size == "4K"
        index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "three.safetensors"}}))
        model = read(tmp_path)
        assert model.info.param_size is None
        assert model.warnings == (
            "'model.safetensors.index.json' names 'three.safetensors', which is not in the folder",
        )

    def test_a_pipeline_is_the_sum_of_its_components(self, tmp_path: Path) -> None:
        (tmp_path / "model_index.json").write_text("{}")
        tensors(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", 1000)
        tensors(tmp_path / "unet" / "diffusion_pytorch_model.fp16.safetensors", 1000, np.float16)
        tensors(tmp_path / "vae" / "diffusion_pytorch_model.safetensors", 500)
        assert (read(tmp_path).info.param_size, read(tmp_path).info.precision) == ("1.5K", "fp32")
        (tmp_path / "model_index.json").unlink()
        assert read(tmp_path).info.param_size is None

    def test_packed_weights_are_not_counted(self, tmp_path: Path) -> None:
        tensors(tmp_path / "model.safetensors", 1000, np.int32)
        config(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4}, torch_dtype="float16")
        info = read(tmp_path).info
        assert (info.quantization, info.param_size, info.precision) == ("gptq", None, None)
        config(tmp_path, quantization={"bits": 4, "group_size": 64})
        assert read(tmp_path).info.quantization == "4bit"

    def test_a_broken_file_is_carried(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
        model = read(tmp_path)
        assert model.info.format == "safetensors"
        assert model.info.param_size is None
        assert model.warnings[0].startswith("'model.safetensors' is not a safetensors file")
        assert model.warnings[0].endswith("; no metadata is read from it")


class TestGguf:
    def test_one_file(self, tmp_path: Path) -> None:
        write_gguf(
            tmp_path / "m.gguf",
            15,
            name="Tiny",
            license="mit",
            author="A",
            organization="O",
            version="v1",
            url="https://u",
            repo_url="https://r",
            description="D",
            context_length=4096,
        )
        model = read(tmp_path)
        info = model.info
        assert (info.name, info.family, info.format) == ("Tiny", "llama", "gguf")
        assert (info.quantization, info.precision, info.param_size) == ("Q4_K_M", None, "2K")
        assert (info.licenses, info.authors, info.vendor, info.version) == (("MIT",), ("A",), "O", "v1")
        assert (info.doc_url, info.source_url, info.description) == ("https://u", "https://r", "D")
        assert model.origin == {"folder.layout": "gguf", "folder.context_length": "4096"}
        assert read(tmp_path / "m.gguf").info == info

    def test_several_quantisations_share_the_rest(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "m-Q4.gguf", 15, name="Tiny", size_label="1")
        write_gguf(tmp_path / "m-Q8.gguf", 7, name="Tiny", size_label="2")
        write_gguf(tmp_path / "mmproj.gguf", 1, architecture="clip", name="Eyes", count=50_000)
        info = read(tmp_path).info
        assert (info.name, info.family, info.param_size, info.quantization) == ("Tiny", "llama", "2K", None)

    def test_a_split_file(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "m-00001-of-00002.gguf", 1, name="Tiny")
        write_gguf(tmp_path / "m-00002-of-00002.gguf", None, count=3000)
        info = read(tmp_path).info
        assert (info.name, info.param_size, info.precision, info.quantization) == ("Tiny", "5K", "fp16", None)

    def test_only_an_adapter(self, tmp_path: Path) -> None:
        write_gguf(tmp_path / "lora.gguf", 1, type="adapter")
        assert read(tmp_path).info.param_size == "2K"

    @pytest.mark.parametrize("data", [b"GGUF", b"GGUF\0\0\0\x03" + bytes(40), b"GGUF\1\0\0\0" + bytes(40), b"", b"no"])
    def test_what_cannot_be_read_is_carried(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "m.gguf").write_bytes(data)
        info = read(tmp_path).info
        assert (info.format, info.param_size, info.quantization, info.family) == ("gguf", None, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pytorch_model.bin", "pytorch"),
        ("pytorch_model-00001-of-00002.bin", "pytorch"),
        ("weights.bin", None),
        ("a.pth", "pytorch"),
        ("onnx/model.onnx", "onnx"),
        ("saved_model.pb", "tensorflow"),
        ("model.keras", "keras"),
        ("notes.txt", None),
    ],
)
def test_formats_by_name(tmp_path: Path, name: str, expected: str | None) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    config(tmp_path, text_config={"torch_dtype": "torch.bfloat16"})
    info = read(tmp_path).info
    assert (info.format, info.precision) == (expected, "bf16")


@pytest.mark.parametrize(
    ("front", "licenses", "other"),
    [
        ("license: mit", ("MIT",), None),
        ("license:\n- mit\n- apache-2.0", ("MIT", "Apache-2.0"), None),
        ("license: llama3", (), "llama3"),
        ("license:\n- mit\n- hippocratic-2.1", ("MIT", "Hippocratic-2.1"), None),
        ("license: other\nlicense_name: qwen", (), "qwen"),
        ("x: y", (), None),
    ],
)
def test_licences(front: str, licenses: tuple[str, ...], other: str | None) -> None:
    readme = ModelFile("README.md", Role.DOC, BytesContent(f"---\n{front}\n---\n".encode()))
    found = describe([readme], DEFAULT_LIMITS)
    assert (found.info.licenses, found.origin.get("folder.license")) == (licenses, other)


def test_front_matter_that_is_no_yaml_is_a_warning() -> None:
    readme = ModelFile("README.md", Role.DOC, BytesContent(b"---\nlicense: mit\nx: y: z\n---\n"))
    found = describe([readme], DEFAULT_LIMITS)
    assert found.info.licenses == ()
    assert found.warnings == (
        "the front matter of 'README.md' is not valid YAML (line 3: mapping values are not allowed here); "
        "it is not read",
    )


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{", "'config.json' is not valid JSON"),
        ("[]", "'config.json' is no JSON object; no metadata is read from it"),
        ("[" * 100_000, "'config.json' is nested too deeply"),
        ('{"a": 1, "a": 2}', "'config.json' is not valid JSON"),
        (" " * 200_001, "'config.json' has 200001 bytes, more than the 200000 that are looked at"),
    ],
)
def test_a_configuration_that_cannot_be_read(text: str, warning: str) -> None:
    found = describe([ModelFile("config.json", Role.DOC, BytesContent(text.encode()))], Limits(metadata=200_000))
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(warning)


@pytest.mark.parametrize("value", [1, None, [], {}, "", " ", "a\nb", "\ud800", "x" * (MAX_TEXT + 1), "\u202ex", True])
def test_values_that_are_no_line_of_text(value: Any) -> None:
    data = json.dumps({"model_type": value, "_name_or_path": value, "max_position_embeddings": -1}).encode()
    found = describe([ModelFile("config.json", Role.DOC, BytesContent(data))], DEFAULT_LIMITS)
    assert (found.info.family, found.info.name) == (None, None)
    assert "folder.context_length" not in found.origin


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("model_type", "_name_or_path", "quantization_config", "quantization", "text_config", "dtype", "n_ctx", "bits")
WEIGHT_MAP = {"weight_map": {"a": "m.safetensors"}}


@given(st.dictionaries(st.sampled_from(KEYS), json_values), json_values, st.binary(max_size=60), st.binary(max_size=60))
def test_arbitrary_files(values: dict[str, Any], index: Any, weights: bytes, more: bytes) -> None:
    contents = {
        "config.json": json.dumps(values).encode(),
        "model.safetensors.index.json": json.dumps({"weight_map": index}).encode(),
        "m.safetensors": weights,
        "m.gguf": b"GGUF\3\0\0\0" + more,
        "README.md": b"---\n" + more + b"\n---\n",
    }
    for names in (list(contents), ["config.json", "m.gguf"]):
        files = [ModelFile(name, Role.WEIGHT, BytesContent(contents[name])) for name in names]
        found = describe(files, DEFAULT_LIMITS)
        json.dumps([str(found.info), dict(found.origin)], ensure_ascii=False).encode()

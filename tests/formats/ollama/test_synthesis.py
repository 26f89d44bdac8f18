# SPDX-License-Identifier: Apache-2.0
"""Models that Ollama did not make, in its models folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ocibridge.errors import FormatError
from ocibridge.formats.ollama.local import read_local
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.formats.ollama.synthesis import human_number
from ocibridge.io.content import read_all
from ocibridge.model import Model

from ..build import fill
from .samples import DOCKER, GGUF, P, foreign, gguf, sink, tree

CLIP = gguf(general__type="mmproj", general__architecture="clip")


def pull(source: Model, root: Path) -> Model:
    """The model after a way through a sink and our own reader."""
    identity = fill(sink("m", source, root), source)
    found = read_local("m", OllamaReadOptions(), root)
    assert found.identity == identity
    assert found.warnings == ()
    return found


def rows(model: Model) -> list[tuple[str, str]]:
    """Kind and file of each layer."""
    return [(file.origin["ollama.mediatype"].removeprefix(P), file.path) for file in model.files[2:]]


def test_one_file(tmp_path: Path) -> None:
    found = pull(foreign({"weights/tiny.Q8_0.gguf": GGUF, "README.md": b"# x"}), tmp_path)
    data, config = (read_all(file.content) for file in found.files[:2])
    assert config == (
        b'{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1.50M",'
        b'"file_type":"F16","architecture":"amd64","os":"linux"}\n'
    )
    blob = "sha256:" + str(found.files[2].sha256)
    assert data == (
        b'{"schemaVersion":2,"mediaType":"%b","config":{"mediaType":"application/vnd.docker.container.image.v1+json",'
        b'"digest":"sha256:%b","size":%d},"layers":[{"mediaType":"%bmodel","digest":"%b","size":%d}]}\n'
        % (DOCKER.encode(), str(found.files[1].sha256).encode(), len(config), P.encode(), blob.encode(), len(GGUF))
    )
    assert found.info.param_size == "1.5M"
    assert len(tree(tmp_path)) == 3


def test_what_goes_with_the_weights(tmp_path: Path) -> None:
    files = {
        "LICENSE": b"MIT",
        "docs/COPYING.txt": b"also",
        "NOTICE": b"no",
        "m.gguf": GGUF,
        "mmproj-f16.gguf": CLIP,
        "lora.gguf": gguf(general__type="adapter"),
        "ollama/messages.json": b"[]\n",
        "ollama/template.plain": b"a template by name, which Ollama has no place for",
        "params": b'{"stop":["x"]}',
        "system": b"Be kind.",
        "template": b"{{ .Prompt }}",
        "chat_template.jinja": b"{{ messages }}",
    }
    found = pull(foreign(files), tmp_path)
    assert rows(found) == [
        *(("model", "model.gguf"), ("projector", "mmproj-1.gguf"), ("adapter", "adapter-1.gguf")),
        *(("template", "ollama/template"), ("system", "ollama/system"), ("license", "LICENSE")),
        *(("license", "LICENSE.1"), ("params", "ollama/params.json"), ("messages", "ollama/messages.json")),
    ]
    assert json.loads(read_all(found.files[1].content))["model_families"] == ["llama", "clip"]


def test_a_split_model(tmp_path: Path) -> None:
    names = [f"x-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    found = pull(foreign({name: GGUF + bytes([each]) for each, name in enumerate(names)}), tmp_path)
    assert [kind for kind, _ in rows(found)] == ["model"] * 3
    assert read_all(found.files[4].content)[-1] == 2
    assert found.info.param_size == "4.5M"


def test_an_opaque_file_gets_its_words_from_the_artifact(tmp_path: Path) -> None:
    opaque = b"GGUF\x01\0\0\0"
    found = pull(foreign({"m.gguf": opaque}, family="gptx", param_size="7B", quantization="Q4_0"), tmp_path / "a")
    assert (found.info.family, found.info.param_size, found.info.quantization) == ("gptx", "7B", "Q4_0")
    found = pull(foreign({"m.gguf": opaque}), tmp_path / "b")
    assert json.loads(read_all(found.files[1].content))["model_families"] is None


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"README.md": b"x"}, "no GGUF file"),
        ({"a.gguf": GGUF, "b.gguf": GGUF + b"x"}, "2 models in it.*'a.gguf', 'b.gguf'.*tag of its own"),
        ({"x-00001-of-00002.gguf": GGUF, "y-00002-of-00002.gguf": GGUF}, "2 models"),
        ({"x-00001-of-00002.gguf": GGUF, "y.gguf": GGUF}, "2 models"),
        ({"x-00001-of-00002.gguf": GGUF}, "lacks parts"),
        ({"x-00001-of-00003.gguf": GGUF, "x-00003-of-00003.gguf": GGUF}, "lacks parts"),
        ({"mmproj.gguf": CLIP}, "only adapters and projectors"),
        ({"m.gguf": b"<html>"}, "is not a GGUF file"),
        ({"m.gguf": GGUF, "params": b"x"}, "'params' is not valid JSON"),
        ({"m.gguf": GGUF, "params": b"[]"}, "no JSON object"),
        ({"m.gguf": GGUF, "ollama/messages.json": b"{}"}, "no JSON array"),
        ({"m.gguf": GGUF, "template": b"x", "ollama/template": b"y"}, "has both 'ollama/template' and 'template'"),
    ],
)
def test_models_that_are_refused(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    source = foreign(files)
    with pytest.raises(FormatError, match=words):
        fill(sink("m", source, tmp_path / "new", complete=False), source)
    assert tree(tmp_path) == {}


def test_the_same_every_time(tmp_path: Path) -> None:
    source = foreign({"m.gguf": GGUF, "LICENSE": b"MIT", "copying": b"x"})
    assert pull(source, tmp_path / "a").identity == pull(source, tmp_path / "b").identity


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((999, "999"), (1000, "1K"), (112_448, "112K"), (1_000_000, "1M"), (136_730_000, "136.73M")),
        *((8_030_261_248, "8.0B"), (7_000_000_000, "7B"), (1_000_000_000_000, "1000B")),
    ],
)
def test_numbers_as_ollama_writes_them(count: int, text: str) -> None:
    assert human_number(count) == text

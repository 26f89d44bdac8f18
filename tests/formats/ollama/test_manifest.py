# SPDX-License-Identifier: Apache-2.0
"""Manifests of both generations, and media types in every way of writing their parameters."""

from __future__ import annotations

import json
from contextlib import suppress
from email.message import Message
from email.utils import collapse_rfc2231_value
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, LimitError, OcibridgeError
from ocibridge.formats.ollama.manifest import parse_ollama_config, parse_ollama_manifest, strip_from
from ocibridge.formats.ollama.mediatype import parse_media_type

from .samples import DOCKER, MODELS, P

LIMIT = 1 << 20
DIGEST = "sha256:" + "a" * 64
ROW = {"mediaType": P + "model", "digest": DIGEST, "size": 3}


@pytest.mark.parametrize(
    "parameters",
    [
        "name=a.b; dtype=BF16; shape=1,2",
        ";name=a.b;dtype=BF16;shape=1,2",
        'DTYPE=BF16; Name="a.b"; shape="1,2"',
        ' name = a.b ;  dtype = "BF16" ; shape = 1,2 ; ',
        'name="a\\.b"; dtype="B\\F16"; shape="1,2"',
        "name*=utf-8''a.b; dtype*=UTF-8'en'BF16; shape=1,2",
        "name*=us-ascii''a%2Eb; dtype=BF16; shape*=''1%2C2",
        "name*0=a; name*1=.; name*2=b; dtype=BF16; shape=1,2",
        "name*1=b; name*0*=utf-8''a%2E; dtype=BF16; shape=1,2",
        ";; name=a.b;; dtype=BF16; shape=1,2;",
    ],
)
def test_parameters_in_every_legal_form(parameters: str) -> None:
    found = parse_media_type(f"{P}tensor; {parameters}", "a layer")
    assert found == ("tensor", {"name": "a.b", "dtype": "BF16", "shape": "1,2"})


@pytest.mark.parametrize(
    ("text", "kind", "params"),
    [
        (P + "model", "model", {}),
        (P + "config; type=gguf", "config", {"type": "gguf"}),
        (P + 'tensor; shape="[300,32]"', "tensor", {"shape": "[300,32]"}),
        (P + 'tensor; name="a;b=\\"c\\\\"; dtype=F32', "tensor", {"name": 'a;b="c\\', "dtype": "F32"}),
        (P + "template; name*=utf-8''%E2%82%AC", "template", {"name": "€"}),
        (P + 'template; name=""', "template", {"name": ""}),
        (P + "future.kind", "future.kind", {}),
        ("text/plain; charset=utf-8", "text/plain", {"charset": "utf-8"}),
    ],
)
def test_media_types(text: str, kind: str, params: dict[str, str]) -> None:
    assert parse_media_type(text, "a layer") == (kind, params)


@pytest.mark.parametrize(
    "text",
    [
        *("", ";", "model", "a/b/c", "a b/c", "/", P + "model name=x", P + "tensor; name"),
        *(P + each for each in ("tensor; name=", "tensor; =x", 'tensor; name="x', 'tensor; name="x\\"', "t; n=a b")),
        *(P + each for each in ('t; n="a"b', 't; n=a"b"', "t; n=a\rb=c", "t; n=a\0", 't; n="\n"', "t; n=\u2028")),
        *(P + each for each in ("t; n=1; n=1", "t; n=1; N=2", "t; n=1; n*=''2", "t; n*=''1; n*0=2", "t; n*0=1; n*0=2")),
        *(
            P + each
            for each in ("t; n*=utf-8''%FF", "t; n*=utf-8''%0A", "t; n*=utf-16''a", "t; n*=no'x'a", "t; n*0=a; n*=b")
        ),
        P + "t; n=" + "x" * 5000,
    ],
)
def test_media_types_that_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_media_type(text, "a layer")


@given(st.text(alphabet="abn*=;\"\\'%0Fé /\n", max_size=40))
def test_any_parameters_are_read_or_refused(text: str) -> None:
    with suppress(FormatError):
        parse_media_type(f"{P}tensor;{text}", "a layer")


@given(st.dictionaries(st.sampled_from(["name", "dtype", "shape"]), st.text(max_size=30)))
def test_what_the_standard_library_writes(params: dict[str, str]) -> None:
    message = Message()
    message["Content-Type"] = P + "tensor"
    for key, value in params.items():
        message.set_param(key, value, charset=None if value.isascii() else "utf-8", requote=True)
    written = message["Content-Type"]
    read_back = {key: collapse_rfc2231_value(value) for key, value in (message.get_params() or [])[1:]}
    with suppress(FormatError):  # control characters
        found = parse_media_type(written, "a layer")[1]
        if read_back == params:  # it loses some texts that end in a backslash, or in nothing
            assert found == params


def parse(document: Any) -> Any:
    return parse_ollama_manifest(json.dumps(document).encode(), "m", LIMIT)


@pytest.mark.parametrize("name", MODELS)
def test_the_manifests_of_the_fixtures(store: Path, name: str) -> None:
    data = (store / MODELS[name]["path"]).read_bytes()
    found = parse_ollama_manifest(data, name, LIMIT)
    seed = "layers-only" in name
    assert len(found.layers) == MODELS[name]["layers"] - seed
    assert found.docker is not seed
    assert found.config is not None
    assert found.config.params == ({"type": "safetensors"} if seed else {})
    assert len(found.parts) == len(found.layers) + 1


def test_both_quotings_of_the_fixtures_say_the_same(store: Path) -> None:
    plain, quoted = (
        parse_ollama_manifest((store / MODELS[f"x/layers-only-test:{tag}"]["path"]).read_bytes(), tag, LIMIT).layers
        for tag in ("latest", "quoted")
    )
    for one, other in zip(plain, quoted, strict=True):
        assert (one.kind, one.name, one.descriptor.digest) == (other.kind, other.name, other.descriptor.digest)
        assert one.params.get("shape") == other.params.get("shape", "").strip("[]") or "shape" not in one.params


def test_everything_but_layers_is_optional() -> None:
    assert parse({"layers": []}).parts == ()
    assert parse({"layers": [{"digest": DIGEST, "size": 0}]}).layers[0].kind == ""
    empty = {"mediaType": "", "digest": "", "size": 0}
    assert parse({"schemaVersion": 2, "mediaType": DOCKER, "config": empty, "layers": [ROW]}).docker is False
    assert parse({"config": None, "layers": [ROW], "future": {"deep": [1]}}).config is None


def test_repeated_rows_are_legal() -> None:
    found = parse({"layers": [ROW, ROW]})
    assert [part.index for part in found.layers] == [0, 1]


CONFIG = {"mediaType": P + "config", "digest": DIGEST, "size": 3}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "not a JSON object"),
        ({}, "layers"),
        ({"layers": None}, "layers"),
        ({"layers": {}}, "layers"),
        ({"layers": [1]}, "layers"),
        ({"layers": [{**ROW, "digest": DIGEST.upper()}]}, "digest"),
        ({"layers": [{**ROW, "digest": "md5:" + "a" * 32}]}, "digest"),
        ({"layers": [{**ROW, "digest": "sha256:../../etc"}]}, "digest"),
        ({"layers": [{**ROW, "digest": ""}]}, "digest"),
        ({"layers": [{**ROW, "size": -1}]}, "size"),
        ({"layers": [{**ROW, "size": "3"}]}, "size"),
        ({"layers": [{**ROW, "size": 1 << 63}]}, "size"),
        ({"layers": [{"mediaType": P + "model", "digest": DIGEST}]}, "size"),
        ({"layers": [{**ROW, "mediaType": P + "model; x"}]}, "media type"),
        ({"layers": [ROW, {**ROW, "size": 4}]}, "two sizes"),
        ({"layers": [{**ROW, "mediaType": P + "tensor; name=a", "name": "b"}]}, "two names"),
        ({"layers": [CONFIG, CONFIG]}, "2 configs"),
        ({"config": CONFIG, "layers": [CONFIG]}, "2 configs"),
        ({"layers": [], "Layers": [ROW]}, "'Layers'"),
        ({"layers": [{**ROW, "Digest": DIGEST}]}, "'Digest'"),
        ({"config": {**CONFIG, "SIZE": 1}, "layers": []}, "'SIZE'"),
    ],
)
def test_manifests_that_are_refused(document: Any, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        parse(document)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"layers":[],"layers":[]}', b'{"layers":NaN}', b'{"layers":' + b"[" * 100_000, b"\xff"]
)
def test_bytes_that_are_no_manifest(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_ollama_manifest(data, "m", LIMIT)


def test_a_manifest_above_the_limit() -> None:
    with pytest.raises(LimitError):
        parse_ollama_manifest(b" " * 101, "m", 100)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([DIGEST, P + "model"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["layers", "config", "digest", "size", "mediaType", "name", "from", "x"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    with suppress(OcibridgeError):
        parse_ollama_manifest(data, "m", LIMIT)
        parse_ollama_manifest(strip_from(data, "m", LIMIT), "m", LIMIT)


def test_strip_from_changes_nothing_else() -> None:
    rows = [{**ROW, "from": "/home/me/x", "future": 1}, {**ROW, "mediaType": P + "license", "from": "base"}, ROW]
    data = json.dumps({"x": "<é>", "layers": rows, "schemaVersion": 2}).encode()
    stripped = strip_from(data, "m", LIMIT)
    assert stripped.endswith(b'],"schemaVersion":2}\n')
    assert b"\\u003c\xc3\xa9\\u003e" in stripped
    expected = [{key: value for key, value in row.items() if key != "from"} for row in rows]
    assert json.loads(stripped) == {"x": "<é>", "layers": expected, "schemaVersion": 2}
    assert strip_from(stripped, "m", LIMIT) == stripped


@pytest.mark.parametrize("value", ['"\\ud800"', "1e999"])
def test_strip_from_refuses_what_it_cannot_write_again(value: str) -> None:
    rows = json.dumps([{**ROW, "from": "a"}])
    with pytest.raises(FormatError):
        strip_from(f'{{"layers":{rows},"x":{value}}}'.encode(), "m", LIMIT)


def test_configs() -> None:
    found = parse_ollama_config(b'{"model_families":null,"rootfs":{"type":"layers"},"file_type":"Q8_0"}', "m", LIMIT)
    assert (found.file_type, found.model_families) == ("Q8_0", None)
    with pytest.raises(FormatError):
        parse_ollama_config(b'{"model_families":"llama"}', "m", LIMIT)

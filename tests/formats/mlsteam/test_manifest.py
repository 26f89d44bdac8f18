# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from ocibridge.errors import FormatError, LimitError
from ocibridge.formats.mlsteam.manifest import Manifest2023, Manifest2024, PackageManifest, parse_manifest, synthesise
from ocibridge.model import ModelInfo

from ..build import contents
from .archives import FIXTURES, PLAIN, V2023, V2024, read


def parse(document: object) -> PackageManifest:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_manifest(data, "x.mlarchive", 1 << 20)


def model(base: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {**base, "models": [{**base["models"][0], **fields}]}


@pytest.mark.parametrize(
    "document",
    [
        V2023,
        {"models": []},
        V2024,
        {"schema": "v2024.1", "version": "1", "models": [{"name": "m", "version": "1"}]},
        model(V2023, inputs=[{"name": "a", "type": "b"}], outputs=[{}], enc_model_cleanup="never"),
        model(V2023, enc_model_cleanup_files=["models", "models/**/*.pt", "...", "a..b"]),
        model(V2024, version="2", framework="tensorflow.keras", description="d", inputs=[{"name": "a", "type": "b"}]),
        model(V2024, loader="hooks/load.py"),
        model(V2024, loader={"built-in": "PyTorchLoader", "anything": [1]}),
        model(V2024, loader={"file": "src/a.py", "function": "load"}),
        {**V2024, "file_integrity_check": {"models": "skip", "manifest": "strictly-enforce", "other": 1}},
        {**V2024, "services": [{"name": "main"}, {"name": "b", "predictor": {"built-in": "PyTorchClassifier"}}]},
        {**V2024, "in_memory_model_extraction": True},
    ],
    ids=str,
)
def test_what_the_sdk_reads_is_read_without_a_word(document: object) -> None:
    assert parse(document).warnings == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"schema": "v2023.1", **V2023}, "has a 'schema' key"),
        ({"schema": "v2022.1", **V2023}, "'v2022.1', which does not exist"),
        ({"schema": 7, **V2023}, "'7', which does not exist"),
        ({"schema": "v2024.0", **V2023}, "does not exist"),
        ({**V2023, "more": 1}, "more: extra inputs are not permitted"),
        (model(V2023, more=1), "models.0.more"),
        (model(V2023, inputs=[{"more": 1}]), "models.0.inputs.0.more"),
        (model(V2023, framework="onnx"), "models.0.framework"),
        (model(V2023, name=""), "models.0.name"),
        (model(V2023, version=1), "models.0.version"),
        (model(V2023, enc_model_cleanup="later"), "models.0.enc_model_cleanup"),
        ({"models": [{"name": "m", "version": "1"}]}, "models.0.framework"),
        ({}, "models: field required"),
        ([], "not a JSON object"),
        ({**V2024, "more": 1}, "more"),
        (model(V2024, more=1), "models.0.more"),
        ({**V2024, "models": []}, "models"),
        ({"schema": "v2024.1", "models": [{"name": "m"}]}, "version"),
        (model(V2024, loader="../load.py"), r"models.0.loader.*leaves the package"),
        (model(V2024, framework="onnx"), "models.0.framework"),
        ({**V2024, "services": [{}]}, "services.0.name"),
        (b'{"models": [], "models": []}', "appears twice"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply|not valid JSON"),
    ],
    ids=str,
)
def test_what_the_sdk_refuses_is_refused(document: object, message: str) -> None:
    with pytest.raises(FormatError, match=message) as found:
        parse(document)
    assert "x.mlarchive: manifest.json" in str(found.value)


@pytest.mark.parametrize("document", [{**V2024, "name": 7}, {**V2024, "version": 1}, model(V2024, name=7)], ids=str)
def test_what_the_sdk_lets_pass_is_a_warning(document: object) -> None:
    (warning,) = parse(document).warnings
    assert "the MLSteam SDK lets it pass" in warning


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            model(
                V2023, description=None, inputs=None, outputs=None, enc_model_cleanup=None, enc_model_cleanup_files=None
            ),
            "has null in it, as the specification allows; the MLSteam SDK from 0.7 on refuses it",
        ),
        ({"schema": "v2024.1", "version": "1", "models": [{"name": "m"}]}, "gives its first model no version"),
    ],
)
def test_what_is_legal_and_troubles_the_sdk_is_a_warning(document: object, message: str) -> None:
    (warning,) = parse(document).warnings
    assert message in warning


def test_a_future_schema_is_carried_with_a_warning() -> None:
    manifest = parse({"schema": "v2025.1", "models": {"name": "?"}})
    assert manifest.schema == "v2025.1"
    assert "newer than this program" in manifest.warnings[0]
    assert manifest.info() == ModelInfo()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("../x", "leaves the package"),
        ("models/../../x", "leaves the package"),
        ("/etc/*", "is absolute"),
        ("C:/x", "drive letter"),
        ("models\\..\\x", "backslash"),
    ],
)
@pytest.mark.parametrize("base", [V2023, V2024, {"schema": "v2030.1", "models": [{}]}], ids=["2023", "2024", "2030"])
def test_cleanup_patterns_that_reach_outside_are_refused(base: dict[str, Any], pattern: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as found:
        parse(model(base, enc_model_cleanup_files=["models", pattern]))
    assert "the MLSteam SDK deletes what it matches, also files of the user" in str(found.value)


def test_cleanup_patterns_are_found_wherever_a_future_schema_has_them() -> None:
    for found in ([".."], "..", {"enc_model_cleanup_files": [".."]}, [7]):
        with pytest.raises(FormatError, match="cleanup pattern"):
            parse({"schema": "v2030.1", "deep": [{"er": {"enc_model_cleanup_files": found}}]})


def test_size_limit() -> None:
    with pytest.raises(LimitError, match="more than the 2 accepted"):
        parse_manifest(b"{ }", "x", 2)


def test_metadata() -> None:
    info = parse(model(V2023, framework="pytorch.lightning", description="d")).info()
    assert info == ModelInfo(name="m", version="1", description="d", format="pytorch")
    two = {"models": [V2023["models"][0], {"name": "n", "version": "2", "framework": "tensorflow.keras"}]}
    assert parse(two).origin() == {
        "mlarchive.schema": "v2023.1",
        "mlarchive.models": "m,n",
        "mlarchive.framework": "pytorch,tensorflow.keras",
    }
    assert parse({**V2024, "name": "top", "version": "9"}).info() == ModelInfo(name="top", version="9")


def test_metadata_of_the_fixtures() -> None:
    infos = [read_info(name) for name in PLAIN]
    assert [info.version for info in infos] == ["1.0.0", "1.1.0"]
    assert {(info.name, info.description, info.format) for info in infos} == {
        ("digits", "Reads one handwritten digit from an 8x8 grey image", "pytorch")
    }


def read_info(name: str) -> ModelInfo:
    return read(FIXTURES / name).info


@pytest.mark.parametrize(("name", "kind"), [(PLAIN[0], Manifest2023), (PLAIN[1], Manifest2024)])
def test_the_types_give_a_json_schema(name: str, kind: type[BaseModel]) -> None:
    schema = kind.model_json_schema()
    Draft202012Validator.check_schema(schema)
    found = json.loads(contents(read(FIXTURES / name))["manifest.json"])
    Draft202012Validator(schema).validate(found)
    assert not Draft202012Validator(schema).is_valid({**found, "more": 1})
    assert not Draft202012Validator(schema).is_valid({"models": [{}]})


@pytest.mark.parametrize(
    "info",
    [
        ModelInfo(),
        ModelInfo(name="n", version="2", description="d", format="pytorch"),
        ModelInfo(title="t", revision="abc", format="gguf"),
    ],
)
def test_a_made_manifest_is_valid_and_has_what_the_sdk_reads_unconditionally(info: ModelInfo) -> None:
    manifest = parse(synthesise(info, "sub"))
    assert manifest.warnings == ()
    Manifest2024.model_validate(manifest.document)
    first = manifest.models[0]
    assert first["name"] == "sub"
    assert first["version"] == (info.version or info.revision or "1")
    assert None not in first.values()
    assert first.get("framework") == ("pytorch" if info.format == "pytorch" else None)

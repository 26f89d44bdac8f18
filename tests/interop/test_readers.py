# SPDX-License-Identifier: Apache-2.0
"""Other tools read and move what we push, byte for byte, and we read it from where they put it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

import ocibridge
from ocibridge.dialects.config import parse_config

from ..registry import RegistryServer

pytestmark = pytest.mark.interop
DIGITS = Path(__file__).parent.parent / "fixtures" / "digits.carton"
SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
IMAGE_SPEC = "github.com/opencontainers/image-spec@v1.1.1"
MODEL_SPEC = "github.com/modelpack/model-spec@v0.0.7"


def run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.fixture(params=["tar", "raw", "raw-files"])
def pushed(request: pytest.FixtureRequest, registry: RegistryServer, repository: str) -> ocibridge.PushReport:
    return ocibridge.push(DIGITS, f"{registry.host}/{repository}:v1", ocibridge.PushOptions(layers=request.param))


def test_skopeo_moves_it_and_the_digest_stays(pushed: ocibridge.PushReport, tmp_path: Path) -> None:
    source = f"docker://{pushed.reference.partition('@')[0]}:v1"
    run("skopeo", "copy", "--src-tls-verify=false", "--preserve-digests", source, f"oci:{tmp_path}/layout:v1")
    assert ocibridge.verify(f"oci:{tmp_path}/layout:v1").digest == pushed.digest
    target = source.replace("/test/", "/moved/")
    command = ("skopeo", "copy", "--src-tls-verify=false", "--dest-tls-verify=false", "--preserve-digests")
    run(*command, source, target)
    pulled = ocibridge.pull(target.removeprefix("docker://"), tmp_path / "back.carton")
    assert (pulled.digest, pulled.identity) == (pushed.digest, pushed.identity)


def test_oras_copies_it_and_pulls_its_files(pushed: ocibridge.PushReport, tmp_path: Path) -> None:
    source = pushed.reference.partition("@")[0] + ":v1"
    run("oras", "copy", "--from-plain-http", source, "--to-oci-layout", f"{tmp_path}/layout:v1")
    assert ocibridge.verify(f"oci:{tmp_path}/layout:v1").digest == pushed.digest
    descriptor: dict[str, Any] = json.loads(run("oras", "manifest", "fetch", "--plain-http", "--descriptor", source))
    assert descriptor["digest"] == pushed.digest
    run("oras", "pull", "--plain-http", source, "--output", str(tmp_path / "out"))
    layers = json.loads(run("oras", "manifest", "fetch", "--plain-http", source))["layers"]
    titled = [layer for layer in layers if "org.opencontainers.image.title" in layer["annotations"]]
    assert titled
    for layer in titled:
        data = (tmp_path / "out" / layer["annotations"]["org.opencontainers.image.title"]).read_bytes()
        assert "sha256:" + hashlib.sha256(data).hexdigest() == layer["digest"]


def test_crane_copies_it(pushed: ocibridge.PushReport) -> None:
    source = pushed.reference.partition("@")[0] + ":v1"
    run("crane", "copy", "--insecure", source, source.replace(":v1", ":copied"))
    assert run("crane", "digest", "--insecure", source.replace(":v1", ":copied")).strip() == pushed.digest


def test_the_config_follows_the_published_schema(tmp_path: Path) -> None:
    """The schema comes with the module of the specification; cnai configs have the same shape as its `cncf` ones."""
    module = json.loads(run("go", "mod", "download", "-json", MODEL_SPEC))["Dir"]
    schema = json.loads((Path(module) / "schema" / "config-schema.json").read_bytes())
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    layout = tmp_path / "layout"
    for layers, dialect in product(("tar", "raw", "raw-files"), ("cnai", "modelpack")):
        report = ocibridge.push(
            DIGITS, f"oci:{layout}:{layers}-{dialect}", ocibridge.PushOptions(layers=layers, dialect=dialect)
        )
        manifest = json.loads((layout / "blobs" / "sha256" / report.digest[7:]).read_bytes())
        config = (layout / "blobs" / "sha256" / manifest["config"]["digest"][7:]).read_bytes()
        validator.validate(json.loads(config))


def test_the_published_examples_are_judged_as_published() -> None:
    """The table of valid and invalid configs in the module's own test, against our schema and our reader."""
    module = json.loads(run("go", "mod", "download", "-json", MODEL_SPEC))["Dir"]
    table = (Path(module) / "schema" / "config_test.go").read_text(encoding="utf-8")
    page = (Path(module) / "docs" / "config.md").read_text(encoding="utf-8")
    examples = re.findall(r"config: `(.*?)`,\s*fail:\s*(true|false)", table, re.DOTALL)
    assert len(examples) == table.count("fail: ") >= 19
    (valid,) = re.findall(r"^```json[^\n]*config[^\n]*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    example = json.loads(valid)
    del example["config"]["capabilities"]["embedding"]  # of that release alone; the current specification refuses it
    examples.append((json.dumps(example), "false"))
    schema = json.loads((SCHEMAS / "config-modelpack.json").read_bytes())
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for config, fail in examples:
        assert validator.is_valid(json.loads(config)) == (fail == "false"), config
        if fail == "false":
            parse_config(config.encode(), "the example", 1 << 20)


@pytest.mark.parametrize("dialect", ["cnai", "modelpack", "draft"])
def test_manifests_follow_the_schema_of_the_image_specification(dialect: str, tmp_path: Path) -> None:
    module = json.loads(run("go", "mod", "download", "-json", IMAGE_SPEC))["Dir"]
    schemas = Path(module) / "schema"

    def resource(path: Path) -> tuple[str, Resource[Any]]:
        document = json.loads(path.read_bytes())
        return path.name, Resource.from_contents(document, default_specification=DRAFT4)

    known = Registry().with_resources(resource(path) for path in schemas.glob("*.json"))
    layout = tmp_path / "layout"
    report = ocibridge.push(DIGITS, f"oci:{layout}:v1", ocibridge.PushOptions(dialect=dialect))
    data = json.loads((layout / "blobs" / "sha256" / report.digest[7:]).read_bytes())
    schema = json.loads((schemas / "image-manifest-schema.json").read_bytes())
    schema["id"] = "image-manifest-schema.json"
    validator = Draft4Validator(schema, registry=known)
    validator.validate(data)
    data["layers"][0]["size"] = "large"
    assert not validator.is_valid(data)

# SPDX-License-Identifier: Apache-2.0
"""Other tools read and move what we push, byte for byte, and we read it from where they put it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import ocibridge

from ..registry import RegistryServer

pytestmark = pytest.mark.interop
DIGITS = Path(__file__).parent.parent / "fixtures" / "digits.carton"
MODEL_SPEC = "github.com/modelpack/model-spec@v0.0.7"


def run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.fixture(params=["tar", "raw", "raw-files"])
def pushed(request: pytest.FixtureRequest, registry: RegistryServer, repository: str) -> ocibridge.PushReport:
    return ocibridge.push(DIGITS, f"{registry.host}/{repository}:v1", layers=request.param)


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
    for number, layers in enumerate(("tar", "raw", "raw-files")):
        report = ocibridge.push(DIGITS, f"oci:{layout}:{number}", layers=layers)
        manifest = json.loads((layout / "blobs" / "sha256" / report.digest[7:]).read_bytes())
        config = (layout / "blobs" / "sha256" / manifest["config"]["digest"][7:]).read_bytes()
        validator.validate(json.loads(config))

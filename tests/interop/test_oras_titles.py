# SPDX-License-Identifier: Apache-2.0
"""`oras pull` of every form of artifact writes files whose names say what they hold."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ocibridge

from ..formats.ollama.samples import unpack_store

pytestmark = pytest.mark.interop
FIXTURES = Path(__file__).parents[1] / "fixtures"
TITLE = "org.opencontainers.image.title"
MAGIC = {".tar.gz": (0, b"\x1f\x8b"), ".tar.zst": (0, b"\x28\xb5\x2f\xfd"), ".tar": (257, b"ustar")}
SOURCES = ("digits.carton", "digits-stored.carton", "digits.mlarchive", "hf-digits", "ollama:tinyllama-test")
FORMS: dict[str, dict[str, Any]] = {
    **{
        f"{layers}-{compress}": {"layers": layers, "compress": compress}
        for layers, compress in product(("tar", "raw"), ("none", "gzip", "zstd"))
    },
    "raw-files": {"layers": "raw-files"},
    "shared": {"layers": "tar", "max_layers": 5},
    "prefix": {"layers": "tar", "prefix": "models/"},
    "draft": {"layers": "tar", "dialect": "draft"},
    "modelpack": {"layers": "raw", "dialect": "modelpack"},
    "modelpack-files": {"layers": "raw-files", "dialect": "modelpack"},
}


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name.startswith("ollama:"):
        monkeypatch.setenv("OLLAMA_MODELS", str(unpack_store(tmp_path / "models")))
        return name
    if name == "hf-digits":
        with tarfile.open(FIXTURES / "hf-digits.tar") as archive:
            archive.extractall(tmp_path / name, filter="data")
        return str(tmp_path / name)
    return str(FIXTURES / name)


def pulled_by_oras(layout: Path, tag: str, into: Path) -> dict[str, bytes]:
    command = ["oras", "pull", "--oci-layout", f"{layout}:{tag}", "--output", str(into)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def check(layout: Path, report: ocibridge.PushReport, into: Path) -> None:
    found = pulled_by_oras(layout, report.tag or "", into)
    manifest = json.loads((layout / "blobs" / "sha256" / report.digest[7:]).read_bytes())
    titles = [layer["annotations"][TITLE] for layer in manifest["layers"]]
    assert len({title.lower() for title in titles}) == len(titles)
    blobs = {layer["annotations"][TITLE]: layer["digest"] for layer in manifest["layers"]}
    assert {name: "sha256:" + hashlib.sha256(data).hexdigest() for name, data in found.items()} == blobs
    hashes = {file.path: file.sha256 for file in ocibridge.inspect(report.reference).files}
    for name, data in found.items():
        suffix = next((each for each, (at, magic) in MAGIC.items() if data[at:].startswith(magic)), None)
        if suffix is None:
            assert hashes[name] == hashlib.sha256(data).hexdigest(), name
        else:
            assert name.endswith(suffix), name


@pytest.mark.parametrize("source", SOURCES, indirect=True)
def test_names_say_what_files_hold(source: str, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    for form, options in FORMS.items():
        check(layout, ocibridge.push(source, f"oci:{layout}:{form}", ocibridge.PushOptions(**options)), tmp_path / form)


@pytest.mark.parametrize("source", ["digits.carton", "digits.mlarchive"], indirect=True)
def test_a_whole_archive_has_its_own_name(source: str, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    report = ocibridge.push(source, f"oci:{layout}:v1", ocibridge.PushOptions(exact=True))
    check(layout, report, tmp_path / "out")
    assert Path(source).read_bytes() in [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("source", ["hf-digits", "ollama:tinyllama-test"], indirect=True)
def test_companions_name_no_files(source: str, tmp_path: Path) -> None:
    """Layers of an image and of an Ollama manifest have no titles, so nothing is written under a wrong name."""
    layout = tmp_path / "layout"
    also = ["image", "ollama"] if source.startswith("ollama:") else ["image"]
    ocibridge.push(source, f"oci:{layout}:v1", ocibridge.PushOptions(also=also))
    for kind in also:
        assert pulled_by_oras(layout, f"v1-{kind}", tmp_path / kind) == {}

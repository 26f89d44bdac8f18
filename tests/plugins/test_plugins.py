# SPDX-License-Identifier: Apache-2.0
"""A format and a dialect that are packages of their own work as those of this package, which knows nothing of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ocibridge
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.jobs.yamlfile import YamlError
from ocibridge.plugins import PluginWarning
from ocibridge.schemas import schema

from .conftest import HERE, install

PACKAGE = Path(ocibridge.__file__).parent
MEMBERS = {
    "MAR-INF/MANIFEST.json": json.dumps(
        {
            "createdOn": "01/02/2026 03:04:05",
            "runtime": "python",
            "model": {
                "modelName": "digits",
                "serializedFile": "digits.pt",
                "handler": "digits_handler.py",
                "modelVersion": "1.5",
            },
            "archiverVersion": "0.12.0",
        }
    ).encode(),
    "digits.pt": b"weights" * 1000,
    "digits_handler.py": b"raise SystemExit('nothing of a model is executed')\n",
    "index_to_name.json": b"{}",
    "README.md": b"# Digits\n",
}
ROLES = {
    "MAR-INF/MANIFEST.json": "weight.config",
    "digits.pt": "weight",
    "digits_handler.py": "code",
    "index_to_name.json": "weight.config",
    "README.md": "doc",
}


@pytest.fixture
def mar(tmp_path: Path, installed: Path) -> Path:
    path = tmp_path / "digits.mar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, data)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


def run(*arguments: object, error: str = "") -> str:
    """What a process of its own prints, as a user has it."""
    command = [sys.executable, "-m", "ocibridge", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(error, done.stderr)
    return done.stdout


@pytest.mark.parametrize("how", [{}, {"layers": "raw-files"}, {"compress": "zstd"}, {"dialect": "modelpack"}])
def test_a_round_trip_keeps_the_identity(how: dict[str, str], mar: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(mar, f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(**how))  # type: ignore[arg-type]
    assert pushed.format == "mar"
    assert str(pushed.identity).startswith("mar:")
    back = ocibridge.pull(pushed.reference, tmp_path / "back.mar")
    assert (back.format, back.identity) == ("mar", pushed.identity)
    assert members(tmp_path / "back.mar") == MEMBERS
    folder = ocibridge.pull(pushed.reference, tmp_path / "folder")
    assert (folder.format, folder.identity) == ("folder", pushed.identity)
    for subject in (mar, tmp_path / "back.mar", tmp_path / "folder", pushed.reference):
        assert ocibridge.verify(subject).identity == pushed.identity
        found = ocibridge.inspect(subject)
        assert {each.path: each.role for each in found.files} == ROLES
        assert (found.format, found.info.version, found.origin) == ("mar", "1.5", {"mar.handler": "digits_handler.py"})


def test_it_converts_from_and_to_other_formats(mar: Path, tmp_path: Path) -> None:
    runner = ocibridge.CartonWriteOptions(runner_name="torchserve", framework_version="*")
    carton = ocibridge.convert(mar, tmp_path / "x.carton", ocibridge.ConvertOptions(writing=runner))
    assert str(carton.identity).startswith("carton:")
    again = ocibridge.convert(mar, tmp_path / "again.mar", ocibridge.ConvertOptions(writing={"zip_method": "stored"}))
    assert again.identity == ocibridge.verify(mar).identity
    with zipfile.ZipFile(tmp_path / "again.mar") as archive:
        assert {each.compress_type for each in archive.infolist()} == {zipfile.ZIP_STORED}
    with pytest.raises(ocibridge.FormatError, match=r"has no MAR-INF/MANIFEST\.json"):
        ocibridge.convert(tmp_path / "x.carton", tmp_path / "y.mar")


def test_its_options_are_its_own(mar: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/layout:v1"
    ocibridge.push(mar, target, ocibridge.PushOptions(reading={"mar_version": "2.0"}))
    assert ocibridge.inspect(target).info.version == "2.0"
    with pytest.raises(ocibridge.UsageError, match=r"--strip-from is for models of Ollama, and .*mar is none"):
        ocibridge.push(mar, target, ocibridge.PushOptions(reading=ocibridge.OllamaReadOptions(strip_from=True)))
    with pytest.raises(ocibridge.UsageError, match="--zip-method cannot be 'zstd'"):
        ocibridge.pull(target, tmp_path / "x.mar", ocibridge.PullOptions(writing={"zip_method": "zstd"}))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ocibridge.UsageError, match=r"--mar-version is for TorchServe archives, and .*model is none"):
        ocibridge.push(tmp_path / "model", target, ocibridge.PushOptions(reading={"mar_version": "2.0"}))


def test_its_companion_is_published_copied_and_mirrored(mar: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(
        mar, f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(layers="raw-files", also=["mar", "image"])
    )
    assert [(each.kind, each.tag) for each in pushed.also] == [
        ("mar", "v1-mar"),
        ("image", "v1-image"),
    ]
    copied = ocibridge.copy(f"oci:{tmp_path}/layout:v1", f"oci:{tmp_path}/copy:v2")
    assert [(each.kind, each.tag, each.digest) for each in copied.companions] == [
        ("mar", "v2-mar", pushed.also[0].digest),
        ("image", "v2-image", pushed.also[1].digest),
    ]
    ocibridge.copy(f"oci:{tmp_path}/copy:v2", f"oci:{tmp_path}/alone:v2", ocibridge.CopyOptions(companions=False))
    (tmp_path / "job.yaml").write_text(
        "sync: [{source: oci:alone:v2, target: oci:target:v3, type: image, also: [mar], models: {dialects: [cnai]}}]"
    )
    report = ocibridge.mirror_run(tmp_path / "job.yaml")
    assert [each.also for each in report.items] == [[f"oci:{tmp_path}/target:v3-mar"]]
    assert ocibridge.copy(f"oci:{tmp_path}/target:v3-mar", f"oci:{tmp_path}/x:v1").digest == pushed.also[0].digest
    with pytest.raises(ocibridge.UsageError, match="--also mar needs every blob of the model as a layer of its own"):
        ocibridge.push(mar, f"oci:{tmp_path}/layout:v4", ocibridge.PushOptions(also=["mar"]))


def test_job_files_have_their_names(installed: Path) -> None:
    job = "sync: [{{source: 'oci:a:v1', target: 'oci:b:v1', type: image, also: [{}], dialect: {}}}]"
    entry = Job.parse(job.format("mar", "toy").encode(), "job.yaml").entries[0]
    assert (entry.sync.also, entry.sync.dialect) == (("mar",), "toy")
    parts = schema("mirror-job")["$defs"]
    assert parts["Sync"]["properties"]["also"]["items"]["enum"] == ["ollama", "mar", "image"]
    assert parts["Sync"]["properties"]["dialect"]["enum"] == ["cnai", "draft", "modelpack", "toy"]
    with pytest.raises(
        YamlError, match=r"(?s)'marr' is not possible here; did you mean 'mar'\?.*write one of cnai.*, toy"
    ):
        Job.parse(job.format("marr", "x").encode(), "job.yaml")


def test_damage_is_found(mar: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(mar, f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(layers="raw-files"))
    blob = max((tmp_path / "layout" / "blobs" / "sha256").iterdir(), key=lambda each: each.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[0] ^= 1
    blob.write_bytes(data)
    with pytest.raises(ocibridge.IntegrityError):
        ocibridge.pull(pushed.reference, tmp_path / "back.mar")
    assert not (tmp_path / "back.mar").exists()


def test_on_the_command_line(mar: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/layout:v1"
    assert "--mar-version VERSION" in run("push", "--help")
    assert "--mar-version" not in run("pull", "--help")
    assert "mar" in run("pull", "--help").partition("--as")[2].partition("}")[0]
    reference = run("push", mar, target, "--mar-version", "3", "--dialect", "toy", "--quiet").strip()
    found = json.loads(run("inspect", reference, "--json"))
    assert (found["format"], found["dialect"], found["info"]["version"]) == ("mar", "toy", None)
    run("pull", target, tmp_path / "back", "--as", "mar", "--zip-method", "stored", "--quiet")
    assert members(tmp_path / "back") == MEMBERS
    run("verify", target, "--quiet")
    run("convert", target, target.replace("v1", "v2"), "--dialect", "cnai", "--quiet")
    assert json.loads(run("inspect", target.replace("v1", "v2"), "--json"))["dialect"] == "cnai"
    run("convert", mar, tmp_path / "again.mar", "--quiet")
    assert members(tmp_path / "again.mar") == MEMBERS


@pytest.mark.parametrize("other", ["cnai", "draft", "modelpack"])
def test_a_dialect_is_written_read_and_translated(other: str, mar: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/layout:"
    pushed = ocibridge.push(mar, f"{target}toy", ocibridge.PushOptions(dialect="toy"))
    found = ocibridge.inspect(f"{target}toy")
    assert (found.dialect, found.artifact_type) == ("toy", "application/vnd.toy.model.manifest.v1+json")
    assert {each.path: each.role for each in found.files} == ROLES
    there = ocibridge.convert(f"{target}toy", f"{target}there", ocibridge.ConvertOptions(dialect=other))
    assert isinstance(there, ocibridge.ConvertReport)
    assert (there.source_dialect, there.dialect, there.identity) == ("toy", other, pushed.identity)
    back = ocibridge.convert(f"{target}there", f"{target}back", ocibridge.ConvertOptions(dialect="toy"))
    assert isinstance(back, ocibridge.ConvertReport)
    assert back.digest == pushed.digest
    assert ocibridge.verify(f"{target}toy").identity == pushed.identity
    with pytest.raises(ocibridge.UsageError, match="the toy dialect has no name for raw layers; use --layers tar"):
        ocibridge.push(mar, f"{target}raw", ocibridge.PushOptions(dialect="toy", layers="raw-files"))


def test_without_them_nothing_knows_the_names(tmp_path: Path, site: Path) -> None:
    (tmp_path / "x.mar").write_bytes(b"PK")
    with pytest.raises(
        ocibridge.SourceError,
        match=r"give one of: x\.carton, x\.mlarchive, x\.gguf or x\.safetensors, a folder, ollama",
    ):
        ocibridge.inspect(tmp_path / "x.mar")
    with pytest.raises(ocibridge.UsageError, match="--dialect cannot be 'toy'; give one of: cnai, draft, modelpack"):
        ocibridge.PushOptions(dialect="toy")


def test_the_package_names_neither() -> None:
    # Where the suffixes of all weights stand, of whatever is in a carton, in a folder or in a volume.
    tables = {"formats/carton/roles.py", "formats/filenames.py", "formats/folder/roles.py", "volume/kinds.py"}
    texts = {each.relative_to(PACKAGE).as_posix(): each.read_text(encoding="utf-8") for each in PACKAGE.rglob("*.py")}
    assert len(texts) > 200
    assert {name for name, text in texts.items() if re.search(r"\.mar\b|MAR-INF|torchserve", text, re.I)} <= tables
    assert not any(re.search(r"\btoy\b", text, re.I) for text in texts.values())


def broken(site: Path, name: str, code: str, entry: str) -> None:
    project = site.parent / name
    (project / f"{name}_package").mkdir(parents=True)
    (project / f"{name}_package" / "__init__.py").write_text(code)
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "1"\n'
        f'[project.entry-points."ocibridge.formats"]\n{entry} = "{name}_package:Thing"\n'
    )
    install(project, site)


@pytest.mark.parametrize(
    ("code", "entry", "reason"),
    [
        ("import nothing_of_this_name", "x", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("", "x", "AttributeError: .*has no attribute 'Thing'"),
        ("class Thing:\n    name = 'x'", "x", "TypeError: it is no Format"),
        ("1 / 0", "x", "ZeroDivisionError"),
        ("from ocibridge.formats.folder import FolderFormat as Thing", "x", "ValueError: it calls itself 'folder'"),
        ("from ocibridge.formats.folder import FolderFormat as Thing", "folder", "there is already one named 'folder'"),
    ],
)
def test_a_broken_plugin_is_one_sentence_and_no_crash(
    code: str, entry: str, reason: str, site: Path, tmp_path: Path
) -> None:
    broken(site, "broken", code, entry)
    install(HERE / "toy", site)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.warns(PluginWarning, match=f"the plugin {entry} .* of broken cannot be used: .*{reason}.*; update or"):
        ocibridge.push(tmp_path / "model", f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(dialect="toy"))
    assert ocibridge.verify(f"oci:{tmp_path}/layout:v1").file_count == 1
    reason = rf"ocibridge: warning: the plugin {entry} .* of broken cannot be used: .*{reason}.*; update or remove .*\n"
    run("push", tmp_path / "model", f"oci:{tmp_path}/layout:v2", "--quiet", error=reason)

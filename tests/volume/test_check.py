# SPDX-License-Identifier: Apache-2.0
"""`volume check`: our own artifacts, their image, what repairs them, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import ocibridge
from ocibridge.cli.main import main
from ocibridge.errors import NotFound, UsageError
from ocibridge.oci import parse_reference
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.opening import open_store
from ocibridge.volume.check import volume_check
from ocibridge.volume.options import VolumeCheckOptions

from ..registry import RegistryServer
from .artifacts import ARTIFACTS, Bench, both_platforms, model, on, predict

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "tests" / "fixtures" / "digits.carton"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "config.json").write_text('{"model_type": "x"}')
    (source / "README.md").write_text("# a model\n")
    (source / "sub" / "model.bin").write_bytes(b"weights" * 1000)
    return source


def paths(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in found}


@pytest.mark.parametrize(
    ("options", "containerd", "crio"),
    [
        ({}, "empty", "wrong"),
        ({"layers": "raw"}, "empty", "wrong"),
        ({"layers": "raw-files"}, "empty", "mounts"),
        ({"compress": "zstd"}, "empty", "wrong"),
        ({"dialect": "modelpack"}, "empty", "wrong"),
        ({"dialect": "draft"}, "mounts", "mounts"),
        ({"dialect": "draft", "compress": "gzip"}, "mounts", "mounts"),
    ],
)
def test_what_we_push(options: dict[str, str], containerd: str, crio: str, folder: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(folder, f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(**options))  # type: ignore[arg-type]
    report = volume_check(pushed.reference)
    assert [each.verdict for each in report.runtimes] == [containerd, crio]
    assert report.ok is (containerd == crio == "mounts")
    assert report.companion is None
    for each in report.runtimes:
        if each.verdict == "mounts":
            assert {file.path: file.size for file in each.files} == paths(folder)
            assert (each.complete, each.repair) == (True, None)
        else:
            assert each.repair is not None
            assert each.repair.startswith(f"ocibridge volume prepare oci:{tmp_path / 'layout'}:")
            assert main(each.repair.split()[1:]) == 0
            assert volume_check(pushed.reference).companion is not None


@pytest.mark.parametrize("options", [{}, {"compress": "gzip"}, {"layers": "raw-files"}, {"prefix": "models/"}], ids=str)
def test_the_image_is_found_and_checked(options: dict[str, str], folder: Path, tmp_path: Path) -> None:
    ocibridge.push(folder, f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(also=["image"], **options))  # type: ignore[arg-type]
    report = volume_check(f"oci:{tmp_path / 'layout'}:v1")
    assert not report.ok
    assert report.companion is not None
    assert report.companion.tag == "v1-image"
    assert report.companion.platforms == ["linux/amd64", "linux/arm64"]
    prefix = options.get("prefix", "")
    for each in report.companion.runtimes:
        assert (each.verdict, each.complete, each.hazards) == ("mounts", True, [])
        assert {file.path: file.size for file in each.files} == {prefix + path: n for path, n in paths(folder).items()}
    repaired = report.runtimes[0].repair or ""
    assert repaired.startswith("ocibridge volume manifest ")
    for read in (False, True):
        assert volume_check(report.companion.reference, VolumeCheckOptions(read=read)).ok


def test_the_image_is_found_by_what_refers_to_it(folder: Path, tmp_path: Path) -> None:
    pushed = ocibridge.push(folder, f"oci:{tmp_path / 'layout'}:v1")
    ocibridge.volume_prepare(f"oci:{tmp_path / 'layout'}:v1", options=ocibridge.PrepareOptions(suffix=".mountable"))
    for name in (pushed.reference, f"oci:{tmp_path / 'layout'}:v1"):
        report = volume_check(name)
        assert report.companion is not None
        assert report.companion.tag is None
        assert all(each.ok for each in report.companion.runtimes)


def test_a_runtime_without_image_volumes(
    registry: RegistryServer, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The headline says it, and the next step is for nodes that stay as they are."""
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(DIGITS, target, ocibridge.PushOptions(also=["image"]))
    for name in (target, f"{target}-image"):
        assert main(["volume", "check", name, "--runtime", "containerd", "--version", "1.7"]) == 1
        out = capsys.readouterr().out
        _, headline, repair, *_ = out.splitlines()
        assert "mount this one" not in out
        assert (
            headline
            == "  containerd 1.7: does not mount; it has no image volumes, 2.1 is the first version that has them"
        )
        command = repair.partition("repair it with: ocibridge ")[2].replace("IMAGE", f"{registry.host}/ocibridge:v1")
        assert main(command.split()) == 0
        assert "initContainers:" in capsys.readouterr().out
    (found,) = volume_check(target, VolumeCheckOptions(runtime="cri-o", version="1.30")).runtimes
    assert (found.verdict, found.ok, found.files, found.mounted_as) == ("refused", False, [], None)
    assert "1.31 is the first version" in found.reason


def test_the_image_of_another_version_is_not_taken(folder: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(also=["image"]))
    (folder / "config.json").write_text("{}")
    ocibridge.push(folder, target)
    report = volume_check(target)
    assert report.companion is None
    assert any("v1-image is the image of another version" in each for each in report.warnings)


def test_a_listing_that_is_not_true_is_found_by_reading(folder: Path, tmp_path: Path) -> None:
    """The annotations say another sha256 than the bytes have."""
    layout = tmp_path / "layout"
    pushed = ocibridge.push(folder, f"oci:{layout}:v1", ocibridge.PushOptions(dialect="draft"))
    with LayoutStore(layout) as store:
        document = json.loads(store.fetch_manifest("v1")[1])
        for layer in document["layers"]:
            rows = json.loads(layer["annotations"]["org.ocibridge.files"])
            rows[0]["sha256"] = "0" * 64
            layer["annotations"]["org.ocibridge.files"] = json.dumps(rows)
        Bench(store).put(document, "lies")
    assert volume_check(pushed.reference, VolumeCheckOptions(read=True)).ok
    assert volume_check(f"oci:{layout}:lies").ok
    found = volume_check(f"oci:{layout}:lies", VolumeCheckOptions(read=True)).runtimes[0]
    assert (found.verdict, found.missing != []) == ("wrong", True)


def test_a_platform_that_is_missing_is_added_by_prepare(folder: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(also=["image"]))
    found = volume_check(f"{target}-image", VolumeCheckOptions(runtime="containerd", platform="linux/riscv64"))
    assert found.runtimes[0].verdict == "refused"
    repair = found.runtimes[0].repair or ""
    words = repair.split()
    assert words[:3] == ["ocibridge", "volume", "prepare"]
    assert words[-1] == "linux/amd64,linux/arm64,linux/riscv64"
    assert main(words[1:]) == 0
    assert volume_check(f"{target}-image", VolumeCheckOptions(runtime="containerd", platform="linux/riscv64")).ok


def test_commands_that_repair_do_repair(folder: Path, tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(folder, target)
    repair = volume_check(target).runtimes[0].repair or ""
    assert main(repair.split()[1:]) == 0
    report = volume_check(target)
    assert report.companion is not None
    assert volume_check(report.companion.reference).ok


def test_a_symlink_of_the_model_is_missed(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    with LayoutStore(layout, create=True) as store:
        bench = Bench(store)
        bench.image("v1", annotations={"org.ocibridge.symlinks": '{"latest":"w-2.bin"}'})
        found = predict(store, "v1", "containerd")
    assert found.hazards == ["the model has a symbolic link 'latest', which its layers do not have"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cnai", "a CNAI model artifact"),
        ("modelpack", "a ModelPack model artifact"),
        ("seed3", "a CNAI model artifact of OCI layers (the draft dialect)"),
        ("kitops", "a KitOps ModelKit"),
        ("docker-model", "a Docker model"),
        ("ollama", "a model of Ollama"),
        ("oras", "an artifact of the type application/vnd.unknown.artifact.v1"),
        ("image", "an image"),
        ("index", "an image index"),
    ],
)
def test_what_it_is_and_what_mends_it(name: str, kind: str, tmp_path: Path) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    with LayoutStore(tmp_path / "layout", create=True) as store:
        ARTIFACTS[name](Bench(store), "v1")
    report = volume_check(target)
    assert report.kind == kind
    for each in report.runtimes:
        if each.verdict == "mounts":
            assert each.repair is None
        else:
            prepared = name in ("cnai", "modelpack")
            assert each.repair is not None
            assert each.repair.startswith("ocibridge volume prepare" if prepared else "ocibridge push FOLDER")


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("cnai", [], 1),
        ("cnai", ["--runtime", "cri-o"], 1),
        ("cnai-raw", [], 1),
        ("cnai-raw", ["--runtime", "cri-o"], 0),
        ("cnai-raw", ["--runtime", "containerd"], 1),
        ("image", [], 0),
        ("image", ["--read"], 0),
        ("image", ["--runtime", "containerd", "--version", "2.1"], 0),
        ("image", ["--runtime", "containerd", "--version", "1.7.8"], 1),
        ("image", ["--runtime", "cri-o", "--version", "1.30"], 1),
        ("index-without-platform", [], 1),
        ("index-without-platform", ["--platform", "linux/arm64"], 0),
        ("image", ["--version", "2.1"], 2),
        ("image", ["--runtime", "containerd", "--version", "latest"], 2),
        ("image", ["--platform", "arm"], 2),
        ("image", ["--runtime", "docker"], 2),
    ],
)
def test_the_exit_status(
    name: str, arguments: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LayoutStore(tmp_path / "layout", create=True) as store:
        ARTIFACTS[name](Bench(store), "v1")
    assert main(["volume", "check", f"oci:{tmp_path / 'layout'}:v1", *arguments]) == status
    out, err = capsys.readouterr()
    assert (out == "") is (status == 2)
    assert (err == "") is (status != 2)


def test_the_json_follows_its_schema(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(also=["image"]))
    assert main(["volume", "check", target, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "schemas" / "volume-check.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    assert document["companion"]["runtimes"][0]["files"]


def test_the_text_names_the_image(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(also=["image"]))
    assert main(["volume", "check", target]) == 1
    out = capsys.readouterr().out
    report = volume_check(target)
    assert report.companion is not None
    assert report.companion.reference in out
    assert "; mount this one:\n" in out
    assert "containerd 2.4: empty; " in out
    assert "sub/model.bin" in out


def test_nothing_of_that_name(tmp_path: Path) -> None:
    with LayoutStore(tmp_path / "layout", create=True) as store:
        model(Bench(store), "v1")
    with pytest.raises(NotFound):
        volume_check(f"oci:{tmp_path / 'layout'}:v2")


def test_the_real_registry(registry: RegistryServer, repository: str) -> None:
    """Ranged reads, referrers and the tag, as a registry has them."""
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(DIGITS, target, ocibridge.PushOptions(also=["image"]))
    report = volume_check(target)
    assert [each.verdict for each in report.runtimes] == ["empty", "wrong"]
    assert report.companion is not None
    for name in (report.companion.reference, f"{target}-image"):
        assert volume_check(name, VolumeCheckOptions(read=True)).ok
    with open_store(parse_reference(target)) as store:
        both_platforms(Bench(store), "other")
        found = predict(store, parse_reference(f"{registry.host}/{repository}:other"), "cri-o")
        assert (found.verdict, len(found.files)) == ("mounts", 3)
        index = Bench(store).index("one", [on(Bench(store).image(None), "linux/amd64")])
        assert predict(store, index["digest"], "containerd").verdict == "mounts"


def test_a_version_is_that_of_one_runtime(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        volume_check(f"oci:{tmp_path}:v1", VolumeCheckOptions(version="2.1"))

# SPDX-License-Identifier: Apache-2.0
"""What each runtime makes of artifacts of many tools: seen with containerd 1.6, 2.2, 2.4, podman 4.3, CRI-O 1.36."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.stores.layout import LayoutStore
from ocibridge.volume.reports import Prediction

from .artifacts import ARTIFACTS, FILES, Bench, predict

M, E, W, R = "mounts", "empty", "wrong", "refused"
TABLE = {
    # containerd 1.6, 2.1, 2.4; CRI-O 1.32, 1.33, 1.36
    "cnai": (R, E, E, R, W, W),
    "cnai-raw": (R, E, E, R, M, M),
    "modelpack": (R, E, E, R, W, W),
    "modelpack-raw-untitled": (R, E, E, R, E, M),
    "image": (M, M, M, M, M, M),
    "image-gzip": (M, M, M, M, M, M),
    "image-zstd": (M, M, M, M, M, M),
    "image-of-arm64": (M, M, M, M, M, M),
    "seed3": (M, M, M, M, M, M),
    "index": (M, M, M, M, M, M),
    "index-model-first": (M, M, M, M, M, M),
    "index-model-only": (R, R, R, R, W, W),
    "index-unnamed-platform": (M, M, M, M, M, M),
    "index-without-platform": (R, R, R, R, R, R),
    "oras": (R, E, E, R, M, M),
    "oras-default-type": (R, R, R, R, M, M),
    "kep-example": (R, R, R, M, M, M),
    "kitops": (R, E, E, R, E, E),
    "kitops-gzip": (R, E, E, R, E, E),
    "docker-model": (R, R, R, R, E, M),
    "docker-image": (M, M, M, M, M, M),
    "ollama": (R, R, R, R, R, R),
    "too-few-diff-ids": (R, R, R, M, R, R),
    "other-diff-ids": (R, R, R, M, R, R),
    "other-diff-ids-gzip": (R, R, R, M, R, R),
    "model-types-image-config": (R, R, R, M, M, M),
    "model-config-with-rootfs": (M, R, R, R, E, E),
    "index-attestation": (M, M, M, M, M, M),
    "image-types-empty-config": (R, R, R, R, W, W),
    "whiteouts": (M, M, M, M, M, M),
    "two-writers": (W, W, W, W, W, W),
    "same-twice": (M, M, M, M, M, M),
    "many-layers": (M, M, M, R, R, R),
}
RUNTIMES = (
    ("containerd", "1.6"),
    ("containerd", "2.1"),
    ("containerd", "2.4"),
    ("cri-o", "1.32"),
    ("cri-o", "1.33"),
    ("cri-o", "1.36"),
)


def test_the_table_has_every_artifact() -> None:
    assert set(TABLE) == set(ARTIFACTS)


@pytest.mark.parametrize("name", TABLE)
def test_each_runtime(name: str, tmp_path: Path) -> None:
    with LayoutStore(tmp_path / "layout", create=True) as store:
        ARTIFACTS[name](Bench(store), "v1")
        found = [predict(store, "v1", runtime, version, "linux/amd64") for runtime, version in RUNTIMES]
    assert tuple(each.verdict for each in found) == TABLE[name], [each.reason for each in found]
    for each in found:
        assert each.reason
        if each.verdict in ("empty", "refused"):
            assert each.files == []
        if each.verdict == "mounts" and name not in ("docker-model", "many-layers", "whiteouts"):
            sizes = {file.path: file.size for file in each.files}
            assert sizes.items() >= {path: len(data) for path, data in FILES.items()}.items()


def one(tmp_path: Path, name: str, runtime: str, version: str | None = None) -> Prediction:
    with LayoutStore(tmp_path / "layout", create=True) as store:
        ARTIFACTS[name](Bench(store), "v1")
        return predict(store, "v1", runtime, version)


def test_the_trap_is_named(tmp_path: Path) -> None:
    found = one(tmp_path, "cnai", "containerd")
    assert "ignored without an error" in found.reason
    assert found.mounted_as == "image"


def test_tar_files_instead_of_the_model(tmp_path: Path) -> None:
    found = one(tmp_path, "cnai", "cri-o")
    assert found.mounted_as == "artifact"
    assert "are tar archives" in found.reason
    assert [file.path for file in found.files] == sorted(FILES)
    assert all(file.size > len(FILES[file.path]) for file in found.files)
    assert found.complete is False


def test_raw_files_are_complete_on_crio(tmp_path: Path) -> None:
    found = one(tmp_path, "cnai-raw", "cri-o", "1.33")
    assert (found.mounted_as, found.complete) == ("artifact", True)


@pytest.mark.parametrize(("version", "expected"), [("1.7.7", "refused"), ("1.7.8", "empty"), ("1.7", "empty")])
def test_containerd_ignores_unknown_layers_since_a_patch(version: str, expected: str, tmp_path: Path) -> None:
    assert one(tmp_path, "cnai", "containerd", version).verdict == expected


@pytest.mark.parametrize(
    ("runtime", "version", "expected"),
    [("containerd", "2.0", False), ("containerd", "2.1", True), ("cri-o", "1.30", False), ("cri-o", "1.31", True)],
)
def test_versions_without_image_volumes(runtime: str, version: str, expected: bool, tmp_path: Path) -> None:
    found = one(tmp_path, "image", runtime, version)
    assert (found.verdict, found.image_volumes, found.ok) == ("mounts", expected, expected)


def test_whiteouts_hide_files_and_are_named(tmp_path: Path) -> None:
    found = one(tmp_path, "whiteouts", "containerd")
    assert [file.path for file in found.files] == ["w-2.bin"]
    assert len([hazard for hazard in found.hazards if "whiteout" in hazard]) == 2


def test_conflicts_are_named(tmp_path: Path) -> None:
    found = one(tmp_path, "two-writers", "containerd")
    assert found.conflicts == ["config.json"]
    assert [file.size for file in found.files] == [len(b"other")]


def test_the_same_bytes_twice_are_no_conflict(tmp_path: Path) -> None:
    found = one(tmp_path, "same-twice", "containerd")
    assert (found.conflicts, found.hazards) == ([], [])


def test_the_platform_decides(tmp_path: Path) -> None:
    with LayoutStore(tmp_path / "layout", create=True) as store:
        ARTIFACTS["index-without-platform"](Bench(store), "v1")
        for runtime in ("containerd", "cri-o"):
            assert predict(store, "v1", runtime, None, "linux/arm64").verdict == "mounts"
            assert predict(store, "v1", runtime, None, "linux/arm64/v8").verdict == "mounts"
            assert "linux/riscv64" in predict(store, "v1", runtime, None, "linux/riscv64").reason

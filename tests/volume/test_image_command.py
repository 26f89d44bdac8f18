# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume prepare` and `ocibridge push --also image`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ocibridge

from ..cli.conftest import Run
from ..cli.conftest import run as run
from ..test_schemas import check
from .test_image import CARTON, load_from


def test_the_last_line_is_what_a_pod_mounts(run: Run, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    assert run("push", CARTON, target, "--prefix", "models", "--max-layers", 7).status == 0
    done = run("volume", "prepare", target, "--platform", "linux/arm64,linux/amd64", "--platform", "linux/s390x")
    assert (done.status, done.out) == (0, f"oci:{tmp_path}/x@{load_from(target + '-image').digest}\n")
    assert "prepared the image v1-image for linux/amd64, linux/arm64, linux/s390x: 6 layers" in done.err
    assert "skipped" in done.err
    assert run("volume", "prepare", target, "--suffix=.k8s", "-q").err == ""
    assert len(load_from(f"{target}.k8s").manifests) == 2


def test_json(run: Run, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    pushed = json.loads(run("push", CARTON, target, "--also", "image", "--json").out)
    check("push", pushed)
    prepared = json.loads(run("volume", "prepare", target, "--json").out)
    check("volume-prepare", prepared)
    assert prepared["digest"] == pushed["also"][0]["digest"]
    assert prepared["reference"] == f"oci:{tmp_path}/x@{prepared['digest']}"
    assert [each["platform"] for each in prepared["platforms"]] == ["linux/amd64", "linux/arm64"]
    check("index", load_from(f"{target}-image").index)
    check("manifest", load_from(f"{target}-image").manifests[0])


def test_the_push_says_so(run: Run, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    done = run("push", CARTON, target, "--also", "image", "--platform", "linux/amd64")
    assert ", also v1-image, in " in done.err
    image = load_from(f"{target}-image")
    (_, artifact), mountable = (line.split() for line in done.out.splitlines())
    assert mountable == ["mountable", f"oci:{tmp_path}/x@{image.digest}"]
    assert run("push", CARTON, target, "--also", "image", "--platform", "linux/amd64", "-q").out == f"{artifact}\n"
    assert len(load_from(f"{target}-image").manifests) == 1


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["volume", "prepare", "oci:x@sha256:" + "0" * 64], 2, "needs a tag"),
        (["volume", "prepare", "oci:x:v1", "--platform", "amd64"], 2, "is no platform"),
        (["volume", "prepare", "oci:x:v1", "--platform", ","], 2, "one platform at least"),
        (["volume", "prepare", "oci:missing:v1"], 1, "there is no layout"),
        (["volume", "prepaer"], 2, "did you mean prepare?"),
        (["push", "x", "oci:x:v1", "--prefix", "/models"], 2, "is absolute"),
    ],
)
def test_what_goes_wrong(
    run: Run,
    argv: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*argv)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_the_help_lists_the_commands(run: Run) -> None:
    assert "\n    prepare " in run("volume", "--help").out


def test_an_image_is_no_model(tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/x:v1"
    ocibridge.push(CARTON, target, ocibridge.PushOptions(also=["image"]))
    with pytest.raises(ocibridge.FormatError, match="and no model artifact"):
        ocibridge.volume_prepare(f"{target}-image")

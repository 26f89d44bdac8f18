# SPDX-License-Identifier: Apache-2.0
"""The format of docs/plugins.md, installed as the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import ocibridge

from .conftest import HERE, install

PAGE = (HERE.parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_the_format_of_the_page(site: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "ocibridge_onnx").mkdir(parents=True)
    (project / "ocibridge_onnx" / "__init__.py").write_text(block("python"))
    (project / "pyproject.toml").write_text(block("toml"))
    install(project, site)
    source, target = tmp_path / "digits.onnx", f"oci:{tmp_path}/layout:v1"
    source.write_bytes(b"\x08\x09weights")
    pushed = ocibridge.push(source, target)
    assert pushed.format == "onnx"
    assert ocibridge.inspect(target).info.name == "digits"
    for name, options in (("x.onnx", ocibridge.PullOptions()), ("y", ocibridge.PullOptions(as_format="onnx"))):
        assert ocibridge.pull(target, tmp_path / name, options).format == "onnx"
        assert (tmp_path / name).read_bytes() == source.read_bytes()
    ocibridge.pull(target, tmp_path / "folder")
    assert (tmp_path / "folder" / "digits.onnx").read_bytes() == source.read_bytes()
    options = sys.modules["ocibridge_onnx"].OnnxReadOptions(onnx_name="other")
    ocibridge.push(source, target, ocibridge.PushOptions(reading=options))
    assert ocibridge.inspect(target).info.name == "other"
    with pytest.raises(ocibridge.UsageError, match=r"--onnx-name is for ONNX files, and .*folder is none"):
        ocibridge.push(tmp_path / "folder", target, ocibridge.PushOptions(reading=options))

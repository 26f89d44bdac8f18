# SPDX-License-Identifier: Apache-2.0
"""What arrives is not trusted: neither the files nor the skeleton."""

from __future__ import annotations

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import DestinationError, FormatError, IntegrityError, LimitError, OcibridgeError, SourceError
from ocibridge.formats.mlsteam.options import MlsteamWriteOptions
from ocibridge.formats.mlsteam.skeleton import ORIGINAL, SKELETON
from ocibridge.io.content import BytesContent
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.model import Model, ModelFile, Role
from ocibridge.settings import Limits

from ..build import contents, fill, stored_of
from .archives import FIXTURES, FORMAT, PLAIN, V2023, read, sink

DIGITS = FIXTURES / PLAIN[0]


def changed(model: Model, path: str, data: bytes) -> Model:
    files = [
        file._replace(content=BytesContent(data), sha256=None) if file.path == path else file for file in model.files
    ]
    return replace(model, files=tuple(files))


def added(model: Model, path: str, data: bytes = b"") -> Model:
    return replace(model, files=(*model.files, ModelFile(path, Role.DOC, BytesContent(data))))


def without(model: Model, path: str) -> Model:
    return replace(model, files=tuple(file for file in model.files if file.path != path))


def reskeleton(model: Model, change: Callable[[dict[str, Any]], object]) -> Model:
    document = json.loads(contents(model)[SKELETON])
    change(document)
    return changed(model, SKELETON, json.dumps(document).encode())


@pytest.fixture
def model() -> Model:
    return read(DIGITS)


@pytest.mark.parametrize("name", ["out.mlarchive", "out"])
@pytest.mark.parametrize(
    "break_it",
    [
        lambda model: changed(model, "models/labels.txt", b"0" * 20),
        lambda model: changed(model, "models/state.pt", b"other"),
        lambda model: changed(model, "hooks/load.py", b"x"),
        lambda model: changed(model, "manifest.json", json.dumps(V2023).encode()),
        lambda model: without(model, "models/labels.txt"),
        lambda model: without(model, "hooks/load.py"),
        lambda model: without(model, "manifest.json"),
        lambda model: without(model, SKELETON),
        lambda model: added(model, "models/more"),
        lambda model: added(model, ORIGINAL, b"x"),
        lambda model: added(model, ".mlarchive/more", b"x"),
        lambda model: added(model, "models/labels.txt"),
        lambda model: added(model, SKELETON),
        lambda model: changed(model, SKELETON, b"{}"),
        lambda model: reskeleton(model, lambda it: it["members"].reverse()),
        lambda model: reskeleton(model, lambda it: it["members"][0].update(sha256="0" * 64)),
        lambda model: reskeleton(model, lambda it: it["members"][0].update(name="../x")),
        lambda model: reskeleton(model, lambda it: it.update(original=True)),
        lambda model: replace(model, identity="mlarchive:" + "0" * 64),
    ],
)
def test_what_differs_is_refused_and_nothing_stays(
    tmp_path: Path, model: Model, break_it: Callable[[Model], Model], name: str
) -> None:
    broken = break_it(model)
    stored = replace(stored_of(model), complete=False, identity=broken.identity)
    with pytest.raises((IntegrityError, FormatError)):
        fill(FORMAT.sink(tmp_path / name, stored, MlsteamWriteOptions()), broken)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises((IntegrityError, FormatError)):
        fill(FORMAT.checker(replace(stored, files=())), broken)


def cut(text: str) -> str:
    return b64encode(b64decode(text)[:-1]).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it["members"][1].update(crc=1),
        lambda it: it["members"][1].update(size=1),
        lambda it: it["members"][1].update(gap=cut(it["members"][1]["gap"])),
        lambda it: it["members"][1].update(gap=""),
        lambda it: it["members"][0].update(gap=b64encode(b"MZ" + b64decode(it["members"][0]["gap"])).decode()),
        lambda it: it["members"][1].update(headerOffset=1 << 40),
        lambda it: it.update(tail=""),
        lambda it: it.update(tail=cut(it["tail"])),
        lambda it: it.update(tail=it["members"][0]["gap"]),
        lambda it: it["members"][1].update(gap="*"),
        lambda it: it["members"][1].update(level=10),
        lambda it: it["members"][1].update(externalAttr=-1),
        lambda it: it["members"][1].update(time=1 << 16),
        lambda it: it.update(schemaVersion=2),
        lambda it: it.pop("tail"),
        lambda it: it["members"].append({**it["members"][1]}),
        lambda it: it["members"].append({**it["members"][1], "name": "models/x/", "size": 3}),
    ],
)
def test_a_skeleton_that_lies_makes_no_archive(
    tmp_path: Path, model: Model, change: Callable[[dict[str, Any]], object]
) -> None:
    broken = reskeleton(model, change)
    stored = replace(stored_of(model), complete=False, identity=None)
    with pytest.raises((IntegrityError, FormatError)):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()), broken)
    assert list(tmp_path.iterdir()) == []


def test_headers_that_name_another_file_than_the_skeleton(tmp_path: Path, model: Model) -> None:
    files = tuple(file._replace(path=file.path.replace("load", "lead")) for file in model.files)
    renamed = reskeleton(replace(model, files=files), lambda it: it["members"][-1].update(name="hooks/lead.py"))
    stored = replace(stored_of(renamed), complete=False, identity=None)
    with pytest.raises(FormatError, match="the skeleton describes another archive than its members"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()), renamed)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_unknown_identity_needs_its_skeleton(tmp_path: Path, model: Model) -> None:
    bare = replace(without(model, SKELETON), identity=None)
    with pytest.raises(FormatError, match=r"no \.mlarchive/index\.json arrived"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored_of(bare), MlsteamWriteOptions()), bare)
    assert fill(FORMAT.sink(tmp_path / "out", stored_of(bare), MlsteamWriteOptions()), bare) is None


def test_a_skeleton_that_lies_about_the_whole_is_equivalent_at_best(tmp_path: Path, model: Model) -> None:
    changes: tuple[Callable[[dict[str, Any]], object], ...] = (
        lambda it: it.update(sha256="0" * 64),
        lambda it: it["members"][1].update(method=0, level=None),
        lambda it: it["members"][1].update(level=1),
        lambda it: it["members"][1].update(compressedSize=1),
    )
    for number, change in enumerate(changes):
        dest = tmp_path / f"{number}.mlarchive"
        target = FORMAT.sink(dest, replace(stored_of(model), complete=False), MlsteamWriteOptions())
        assert fill(target, reskeleton(model, change)) == model.identity
        assert target.note == "equivalent"
        assert read(dest).identity == model.identity


@pytest.mark.parametrize("name", ["out.mlarchive", "out"])
def test_a_dangerous_manifest_does_not_come_out(tmp_path: Path, model: Model, name: str) -> None:
    entry = {**V2023["models"][0], "enc_model_cleanup_files": ["../../home"]}
    broken = changed(model, "manifest.json", json.dumps({"models": [entry]}).encode())
    bare = without(broken, SKELETON)
    for each, known in ((broken, stored_of(model)), (bare, replace(stored_of(bare), format=None))):
        with pytest.raises(FormatError, match=r"the cleanup pattern '\.\./\.\./home' leaves the package"):
            fill(FORMAT.sink(tmp_path / name, replace(known, complete=False), MlsteamWriteOptions()), each)
    assert list(tmp_path.iterdir()) == []


def test_what_is_ours_arrives_once(tmp_path: Path, model: Model) -> None:
    for name in ("out.mlarchive", "out"):
        with pytest.raises(FormatError, match=r"'\.mlarchive/index\.json' arrives twice"):
            fill(sink(tmp_path / name, model), replace(model, files=model.files[:1] * 2))


def test_the_original_must_be_the_original(tmp_path: Path) -> None:
    model = read(DIGITS, keep=True)
    other = (FIXTURES / PLAIN[1]).read_bytes()
    for broken in (changed(model, ORIGINAL, other), without(model, ORIGINAL)):
        for name in ("out.mlarchive", "out"):
            with pytest.raises(IntegrityError):
                fill(
                    FORMAT.sink(tmp_path / name, replace(stored_of(model), complete=False), MlsteamWriteOptions()),
                    broken,
                )
    assert list(tmp_path.iterdir()) == []


def test_the_original_must_have_the_members_that_arrive(tmp_path: Path) -> None:
    model = read(DIGITS, keep=True)
    data = (FIXTURES / PLAIN[1]).read_bytes()
    sha256 = read(FIXTURES / PLAIN[1], keep=True).files[1].sha256
    broken = reskeleton(changed(model, ORIGINAL, data), lambda it: it.update(sha256=sha256))
    with pytest.raises(IntegrityError, match="the archive and its members differ"):
        fill(
            FORMAT.sink(tmp_path / "out.mlarchive", replace(stored_of(model), complete=False), MlsteamWriteOptions()),
            broken,
        )


def test_limits(tmp_path: Path, model: Model) -> None:
    for name in ("out.mlarchive", "out"):
        with pytest.raises(LimitError, match="more than the 100 accepted"):
            fill(sink(tmp_path / name, model, MlsteamWriteOptions(limits=Limits(metadata=100))), model)


class Cut(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._data:
            raise SourceError("the line broke")
        memoryview(buffer)[: len(self._data)] = self._data
        count, self._data = len(self._data), b""
        return count


@pytest.mark.parametrize("step", [1, -1], ids=["in order", "backwards"])
def test_who_lost_the_line_may_try_again(tmp_path: Path, model: Model, step: int) -> None:
    target = sink(tmp_path / "out.mlarchive", model)
    with target:
        for file in model.files[::step]:
            data = contents(model)[file.path]
            if file.path not in (SKELETON, "manifest.json"):
                with pytest.raises(SourceError, match="the line broke"):
                    target.write(file.path, file.size, Cut(data[: len(data) // 2]))
            target.write(file.path, file.size, BytesContent(data).open())
        target.commit()
    assert target.note == "exact"
    assert (tmp_path / "out.mlarchive").read_bytes() == DIGITS.read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "out.mlarchive"]


def test_an_original_that_the_skeleton_does_not_know(tmp_path: Path, model: Model) -> None:
    broken = replace(model, files=added(model, ORIGINAL, b"x").files[::-1])
    with pytest.raises(FormatError, match="should not be there"):
        fill(
            FORMAT.sink(tmp_path / "out.mlarchive", replace(stored_of(model), complete=False), MlsteamWriteOptions()),
            broken,
        )
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_replaced_only_if_asked(tmp_path: Path, model: Model) -> None:
    dest = tmp_path / "out.mlarchive"
    dest.write_bytes(b"old")
    with pytest.raises(DestinationError, match="it exists"):
        sink(dest, model)
    fill(sink(dest, model, MlsteamWriteOptions(rules=TargetRules(Existing.OVERWRITE))), model)
    assert dest.read_bytes() == DIGITS.read_bytes()
    assert list(tmp_path.iterdir()) == [dest]


def test_verify(model: Model) -> None:
    assert fill(FORMAT.checker(stored_of(model)), model) == model.identity


def test_unsafe_names_are_refused(tmp_path: Path, model: Model) -> None:
    for name in ("out.mlarchive", "out"):
        for path in ("../x", "/x", "a\\b", "models/labels.TXT"):
            with pytest.raises(OcibridgeError):
                fill(
                    FORMAT.sink(tmp_path / name, replace(stored_of(model), complete=False), MlsteamWriteOptions()),
                    added(model, path),
                )
    assert list(tmp_path.iterdir()) == []

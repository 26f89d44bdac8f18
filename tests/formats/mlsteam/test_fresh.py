# SPDX-License-Identifier: Apache-2.0
"""New archives, from models of other tools and formats."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ocibridge.errors import FormatError, IntegrityError, LimitError, SourceError, UsageError
from ocibridge.formats.base import Sink
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions
from ocibridge.formats.mlsteam.options import MlsteamWriteOptions
from ocibridge.formats.mlsteam.skeleton import SKELETON
from ocibridge.io.content import BytesContent
from ocibridge.model import FileEntry, Model, ModelFile, ModelInfo, Role, StoredModel
from ocibridge.settings import Limits

from ..build import contents, fill, stored_of
from .archives import FIXTURES, FORMAT, GENUINE, MANIFEST, PLAIN, read


def foreign(files: dict[str, bytes], info: ModelInfo = ModelInfo(name="My Model/1", version="3")) -> Model:  # noqa: B008
    return Model(
        "other", tuple(ModelFile(name, Role.WEIGHT, BytesContent(data)) for name, data in files.items()), info=info
    )


def target(dest: Path, model: Model, options: MlsteamWriteOptions | None = None) -> Sink:
    stored = replace(stored_of(model), format=None)
    return FORMAT.sink(dest, stored, options or MlsteamWriteOptions())


@pytest.mark.parametrize("method", ["stored", "deflate"])
def test_a_foreign_model_gets_a_manifest_and_its_folder(tmp_path: Path, method: str) -> None:
    files = {"b.gguf": b"G" * 1000, "sub/a.txt": b"1", "hooks/load.py": b"", "src/x.py": b"", "models": b"a file"}
    model = foreign(files)
    dest = tmp_path / "out.mlarchive"
    identity = fill(target(dest, model, MlsteamWriteOptions(zip_method=method)), model)
    found = read(dest)
    assert found.identity == identity
    assert [file.path for file in found.files] == [
        SKELETON,
        "manifest.json",
        "models/My-Model-1/b.gguf",
        "models/My-Model-1/models",
        "models/My-Model-1/sub/a.txt",
        "hooks/load.py",
        "src/x.py",
    ]
    manifest = json.loads(contents(found)["manifest.json"])
    assert manifest == {
        "schema": "v2024.1",
        "name": "My Model/1",
        "version": "3",
        "models": [{"name": "My-Model-1", "version": "3"}],
    }
    assert list(tmp_path.iterdir()) == [dest]


@pytest.mark.parametrize("name", [None, "..", "///", "...", "é" * 300])
def test_any_name_gives_a_folder(tmp_path: Path, name: str | None) -> None:
    model = foreign({"a.bin": b""}, ModelInfo(name=name))
    fill(target(tmp_path / "out.mlarchive", model), model)
    assert read(tmp_path / "out.mlarchive").files[2].path.endswith("/a.bin")


def test_a_model_with_its_own_manifest_keeps_its_paths(tmp_path: Path) -> None:
    model = foreign({"models/b": b"1", "extra": b"2", "manifest.json": MANIFEST})
    dest = tmp_path / "out.mlarchive"
    fill(target(dest, model), model)
    found = read(dest)
    assert [file.path for file in found.files][1:] == ["manifest.json", "models/b", "extra"]
    assert contents(found)["manifest.json"] == MANIFEST


def test_an_archive_that_lost_its_skeleton(tmp_path: Path) -> None:
    model = read(FIXTURES / PLAIN[1])
    stripped = replace(model, files=model.files[1:], identity=None)
    dest = tmp_path / "out.mlarchive"
    fill(target(dest, stripped), stripped)
    assert contents(read(dest)).items() >= contents(stripped).items()


def test_a_carton(tmp_path: Path) -> None:
    model = CartonFormat().read(FIXTURES / "digits.carton", CartonReadOptions())
    dest = tmp_path / "out.mlarchive"
    fill(FORMAT.sink(dest, stored_of(model), MlsteamWriteOptions()), model)
    found = read(dest)
    assert contents(found)["models/digits/model/model.pt"] == contents(model)["model/model.pt"]
    assert found.info.name == "digits"


def test_the_same_model_gives_the_same_archive(tmp_path: Path) -> None:
    model = foreign({"a": b"1", "b": b"2"})
    for name in ("1.mlarchive", "2.mlarchive"):
        fill(target(tmp_path / name, model), model)
    assert (tmp_path / "1.mlarchive").read_bytes() == (tmp_path / "2.mlarchive").read_bytes()


def test_what_the_sdk_cannot_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--zip-method cannot be 'zstd'; give one of: stored, deflate"):
        target(tmp_path / "out.mlarchive", foreign({"a": b""}), MlsteamWriteOptions(zip_method="zstd"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"manifest.json": b'{"manifest_version": 3}'}, "manifest.json is not valid"),
        ({"k.enckey": b""}, "is a key file"),
        ({"A": b"", "a": b""}, "collide"),
    ],
)
def test_refusals(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    model = foreign(files)
    stored = replace(stored_of(model), format=None)
    with pytest.raises(FormatError, match=message):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()), model)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_is_too_large(tmp_path: Path) -> None:
    model = foreign({"manifest.json": MANIFEST})
    with pytest.raises(LimitError, match="more than the 10 accepted"):
        fill(target(tmp_path / "out.mlarchive", model, MlsteamWriteOptions(limits=Limits(metadata=10))), model)


def test_what_was_not_announced(tmp_path: Path) -> None:
    stored = StoredModel(None, (), False)
    model = foreign({"manifest.json": MANIFEST})
    with pytest.raises(FormatError, match="did not announce"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()), model)
    announced = StoredModel(None, (FileEntry("manifest.json", Role.DOC),), False)
    with pytest.raises(FormatError, match="did not arrive"):
        fill(FORMAT.sink(tmp_path / "out.mlarchive", announced, MlsteamWriteOptions()), foreign({"a": b""}))
    with pytest.raises(FormatError, match="arrives twice"):
        twice = foreign({"a": b""})
        fill(
            FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()),
            replace(twice, files=twice.files * 2),
        )
    with pytest.raises(IntegrityError, match="not the 9 promised"):
        with FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()) as sink:
            sink.write("a", 9, BytesContent(b"1").open())
    assert list(tmp_path.iterdir()) == []


LOAD = b"raise SystemExit('hooks are never run')\n\xff"
UNLOADABLE = (
    "the archive has no hooks/load.py: the MLSteam SDK can import it, but not load it; supply hooks with --hooks FOLDER"
)


def hooks_folder(folder: Path, files: dict[str, bytes] | None = None) -> MlsteamWriteOptions:
    """Options with a folder of hooks."""
    for name, data in (files or {"load.py": LOAD}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return MlsteamWriteOptions(hooks=folder)


def test_hooks_of_the_user(tmp_path: Path) -> None:
    model = foreign({"a.pt": b"1", "hooks/own.py": b"2"})
    given = {"load.py": LOAD, "predict.py": b"", "__pycache__/load.pyc": b"?", "load.pyc": b"?"}
    out = target(tmp_path / "out.mlarchive", model, hooks_folder(tmp_path / "h", given))
    identity = fill(out, model)
    assert out.losses == ()
    found = read(tmp_path / "out.mlarchive")
    assert found.identity == identity
    assert [file.path for file in found.files[1:]] == [
        *("manifest.json", "models/My-Model-1/a.pt"),
        *("hooks/load.py", "hooks/own.py", "hooks/predict.py"),
    ]
    assert contents(found)["hooks/load.py"] == LOAD
    assert found.warnings == ()


def test_hooks_beside_a_manifest_of_its_own(tmp_path: Path) -> None:
    model = foreign({"manifest.json": MANIFEST, "models/a": b"1"}, ModelInfo())
    bare = target(tmp_path / "bare.mlarchive", model)
    bare.abort()
    # Its manifest may name another loader.
    assert bare.losses == ()
    fill(target(tmp_path / "out.mlarchive", model, hooks_folder(tmp_path / "h")), model)
    found = contents(read(tmp_path / "out.mlarchive"))
    assert (found["manifest.json"], found["hooks/load.py"]) == (MANIFEST, LOAD)


def test_what_else_is_in_the_folder_of_hooks(tmp_path: Path) -> None:
    given = dict.fromkeys(("load.py", ".hidden.py", "README.md", "sub/x.py", "x.py/y.py"), b"")
    options = hooks_folder(tmp_path / "h", given)
    model = foreign({"a.pt": b"1"})
    out = target(tmp_path / "out.mlarchive", model, options)
    fill(out, model)
    assert out.losses == (
        f"'.hidden.py', 'README.md', 'sub', 'x.py' of {options.hooks} is left out: "
        "hooks are the *.py files directly in it",
    )
    assert [path for path in contents(read(tmp_path / "out.mlarchive")) if path.startswith("hooks/")] == [
        "hooks/load.py"
    ]


def test_load_py_may_come_from_the_model(tmp_path: Path) -> None:
    model = foreign({"hooks/load.py": b"theirs"})
    fill(target(tmp_path / "out.mlarchive", model, hooks_folder(tmp_path / "h", {"predict.py": b"ours"})), model)
    found = contents(read(tmp_path / "out.mlarchive"))
    assert (found["hooks/load.py"], found["hooks/predict.py"]) == (b"theirs", b"ours")


@pytest.mark.parametrize(
    ("given", "files", "message"),
    [
        ({"predict.py": b""}, {}, r"has no load\.py, which the MLSteam SDK calls.*; write one with a function load"),
        ({"load.py": b""}, {"hooks/load.py": b""}, r"a file 'hooks/load\.py' of its own"),
        ({"load.py": b"", "A.py": b""}, {"hooks/a.py": b""}, "collides"),
        ({"load.py": b"", "a\\b.py": b""}, {}, "has a backslash"),
    ],
)
def test_hooks_that_are_refused(tmp_path: Path, given: dict[str, bytes], files: dict[str, bytes], message: str) -> None:
    if os.name == "nt" and any("\\" in name for name in given):
        pytest.skip("no such names here")
    with pytest.raises(FormatError, match=message):
        target(tmp_path / "out.mlarchive", foreign({"w": b"", **files}), hooks_folder(tmp_path / "h", given))
    assert [each.name for each in tmp_path.iterdir()] == ["h"]


def test_a_hook_of_the_model_that_was_not_announced(tmp_path: Path) -> None:
    model = foreign({"hooks/load.py": b"theirs"})
    with pytest.raises(FormatError, match=r"'hooks/load\.py' of its own.*leave that file out"):
        out = FORMAT.sink(tmp_path / "out.mlarchive", StoredModel(None, (), False), hooks_folder(tmp_path / "h"))
        fill(out, model)
    assert [each.name for each in tmp_path.iterdir()] == ["h"]


def test_hooks_that_cannot_be_read(tmp_path: Path) -> None:
    model = foreign({"w": b""})
    with pytest.raises(SourceError, match=r"no folder .*missing to take hooks from; check what --hooks names"):
        target(tmp_path / "out.mlarchive", model, MlsteamWriteOptions(hooks=tmp_path / "missing"))
    folder = hooks_folder(tmp_path / "h").hooks
    assert folder
    with pytest.raises(SourceError, match="no folder"):
        target(tmp_path / "out.mlarchive", model, MlsteamWriteOptions(hooks=Path(folder) / "load.py"))
    with pytest.raises(LimitError, match=r"'load\.py' has \d+ bytes, more than the 10 accepted of a hook"):
        target(tmp_path / "out.mlarchive", model, MlsteamWriteOptions(hooks=folder, limits=Limits(metadata=10)))
    assert [each.name for each in tmp_path.iterdir()] == ["h"]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links and named pipes")
def test_hooks_that_are_no_files(tmp_path: Path) -> None:
    options = hooks_folder(tmp_path / "h")
    (tmp_path / "h" / "link.py").symlink_to("load.py")
    with pytest.raises(FormatError, match=r"'link\.py' is a symbolic link"):
        target(tmp_path / "out.mlarchive", foreign({"w": b""}), options)
    (tmp_path / "h" / "link.py").unlink()
    os.mkfifo(tmp_path / "h" / "pipe.py")
    with pytest.raises(FormatError, match=r"'pipe\.py' is no regular file"):
        target(tmp_path / "out.mlarchive", foreign({"w": b""}), options)


@pytest.mark.parametrize("name", GENUINE)
@pytest.mark.parametrize("dest", ["out.mlarchive", "out"])
def test_hooks_have_no_place_in_what_was_an_archive(tmp_path: Path, name: str, dest: str) -> None:
    options = hooks_folder(tmp_path / "h")
    with pytest.raises(UsageError, match=r"into a new MLSteam archive only.*was an archive.*leave out --hooks"):
        FORMAT.sink(tmp_path / dest, stored_of(read(FIXTURES / name)), options)
    assert [each.name for each in tmp_path.iterdir()] == ["h"]


def test_hooks_have_no_place_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a folder"):
        target(tmp_path / "out", foreign({"w": b""}), hooks_folder(tmp_path / "h"))


def test_what_a_manifest_has_no_word_for(tmp_path: Path) -> None:
    info = ModelInfo(
        name="m",
        title="The M",
        version="1",
        revision="abc",
        description="d",
        family="llama",
        authors=("A", "B"),
        licenses=("MIT",),
        source_url="https://x",
        created_at=datetime(2024, 1, 2, tzinfo=timezone.utc),
        format="gguf",
        param_size="7B",
    )
    files = (FileEntry("a", Role.WEIGHT, 1), FileEntry("b", Role.WEIGHT, 1, symlink="a"))
    stored = StoredModel("folder", files, True, "folder:12", info)
    with FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()) as out:
        assert out.losses == (
            UNLOADABLE,
            "the manifest of an MLSteam archive has no word for these facts, they are not kept: title 'The M', "
            "revision 'abc', family 'llama', authors 'A, B', licenses 'MIT', source url 'https://x', "
            "created at '2024-01-02 00:00:00+00:00', format 'gguf', param size '7B'",
            "an MLSteam archive has no symbolic links, the bytes are written instead: 'b'",
            "the identity of the source (folder:12) is not kept: the archive has its own",
        )


@pytest.mark.parametrize(
    "info",
    [
        ModelInfo(),
        ModelInfo(name="m", title="m", version="1", revision="1", description="d", format="pytorch"),
        ModelInfo(title="only a title", revision="only a revision", format="tensorflow.keras"),
    ],
    ids=str,
)
def test_nothing_is_lost(tmp_path: Path, info: ModelInfo) -> None:
    with target(tmp_path / "out.mlarchive", foreign({"hooks/load.py": b""}, info)) as out:
        assert out.losses == ()
    stored = StoredModel(None, (), False, None, info)
    with FORMAT.sink(tmp_path / "out.mlarchive", stored, MlsteamWriteOptions()) as out:
        assert out.losses == (
            "the archive has no hooks/load.py, unless a layer without a listing brings it: "
            + UNLOADABLE.partition(": ")[2],
        )


@pytest.mark.parametrize("name", GENUINE)
def test_a_restored_archive_loses_nothing(tmp_path: Path, name: str) -> None:
    with FORMAT.sink(tmp_path / "out.mlarchive", stored_of(read(FIXTURES / name)), MlsteamWriteOptions()) as out:
        assert out.losses == ()

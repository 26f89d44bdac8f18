# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import FormatError, IntegrityError, LimitError, OcibridgeError, SourceError
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions
from ocibridge.io.content import read_all
from ocibridge.model import Model, Role
from ocibridge.settings import Limits

from ..build import INDEX, SYMLINK, TOML, Raw, carton, contents, manifest_of, raw_zip, whole

FIXTURES = Path(__file__).parents[2] / "fixtures"
LABELS = b"one\ntwo\n"


def read(path: Path, options: CartonReadOptions | None = None) -> Model:
    return CartonFormat().read(path, options or CartonReadOptions())


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / name) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
    return folder


def lay(folder: Path, files: dict[str, bytes], manifest: bytes | None = None) -> Path:
    for name, data in {**files, "MANIFEST": manifest_of(files) if manifest is None else manifest}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("name", ["digits.carton", "digits-stored.carton", "digits-unpacked.tar"])
def test_fixtures(tmp_path: Path, name: str) -> None:
    path = unpack(name, tmp_path) if name.endswith(".tar") else FIXTURES / name
    entries = {e["file"]: e for e in json.loads((FIXTURES / "fixtures.json").read_text())["fixtures"]}
    known = entries[name]["identity"]
    model = read(path)
    assert model.identity == f"carton:{known['manifest_sha256']}"
    assert model.warnings == ()
    found = contents(model)
    manifest = found.pop("MANIFEST")
    assert hashlib.sha256(manifest).hexdigest() == known["manifest_sha256"]
    assert {path: hashlib.sha256(data).hexdigest() for path, data in found.items()} == known["members"]
    assert {file.path: file.symlink for file in model.files if file.symlink} == known["symlinks"]
    assert [file.path for file in model.files] == [*known["members"], "MANIFEST"]
    assert all(file.sha256 for file in model.files)
    assert (model.info.name, model.info.licenses, model.info.format) == ("digits", ("MIT",), "torchscript")
    assert model.info.doc_url == "https://example.org/models/digits/about"
    assert model.origin["carton.manifest_hash"] == known["manifest_sha256"]
    assert CartonFormat().matches(path)


def test_a_linked_fixture_says_how_to_allow_it() -> None:
    with pytest.raises(
        FormatError, match=r"model/model\.pt' is not in the carton, only linked from http://127"
    ) as caught:
        read(FIXTURES / "digits-links.carton")
    assert "--fetch-links" in str(caught.value)
    assert "--links-host HOST" in str(caught.value)


def test_matches(tmp_path: Path) -> None:
    box = CartonFormat()
    renamed = carton(tmp_path / "model.zip")
    assert box.matches(renamed)
    assert box.matches(lay(tmp_path / "folder", whole({})))
    (tmp_path / "other.zip").write_bytes(raw_zip([Raw(b"a", b"1")]))
    (tmp_path / "text").write_bytes(b"MANIFEST carton.toml")
    for other in ("other.zip", "text", "missing.carton", "."):
        assert not box.matches(tmp_path / other)
    assert box.suits(tmp_path / "a.carton")
    assert not box.suits(tmp_path / "a")


def test_roles(tmp_path: Path) -> None:
    expected = {
        "model/a.safetensors": (Role.WEIGHT, False),
        "model/run.py": (Role.CODE, False),
        "model/.carton/x.whl": (Role.CODE, False),
        "model/.carton/carton.lock": (Role.WEIGHT_CONFIG, False),
        "model/config.json": (Role.WEIGHT_CONFIG, False),
        "model/tokenizer.model": (Role.WEIGHT_CONFIG, False),
        "model/README": (Role.DOC, False),
        "model/LICENSE.txt": (Role.DOC, False),
        "model/unknown": (Role.WEIGHT_CONFIG, True),
        "model/large": (Role.WEIGHT, False),
        "model/large.json": (Role.WEIGHT_CONFIG, False),
        "misc/a.png": (Role.DOC, False),
        "tensor_data/index.toml": (Role.DATASET, False),
        "carton.toml": (Role.WEIGHT_CONFIG, False),
        "README.md": (Role.DOC, False),
        "other": (Role.DOC, True),
        "MANIFEST": (Role.WEIGHT_CONFIG, False),
    }
    files = {path: bytes(8 << 20) if "large" in path else b"x" for path in expected.keys() - whole({}) - {"MANIFEST"}}
    model = read(carton(tmp_path / "a.carton", files))
    assert {file.path: (file.role, file.guessed) for file in model.files} == expected


def test_directory_entries_and_descriptors(tmp_path: Path) -> None:
    members = [Raw(name.encode(), data, 8, descriptor=True) for name, data in whole({"model/a": b"1"}).items()]
    rows = manifest_of(whole({"model/a": b"1"}))
    path = tmp_path / "a.carton"
    path.write_bytes(raw_zip([Raw(b"model/"), *members, Raw(b"MANIFEST", rows), Raw(b"misc/")], comment=b"hi"))
    assert read(path).warnings == ()
    assert contents(read(path))["model/a"] == b"1"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def linked(path: Path, links: dict[str, str], rows: dict[str, bytes] | None = None) -> Path:
    """A carton with `model/labels.txt` and symlink entries whose rows have the hash of that file."""
    files = whole({"model/labels.txt": LABELS})
    manifest = manifest_of({**files, **(dict.fromkeys(links, LABELS) if rows is None else rows)})
    extra = [Raw(name.encode(), target.encode(), attr=SYMLINK) for name, target in links.items()]
    return carton(path, files, manifest=manifest, extra=extra)


def test_symlinks(tmp_path: Path) -> None:
    links = {"model/a": "./labels.txt", "model/sub/b": "../a", "misc/c": "../model/sub/b"}
    model = read(linked(tmp_path / "a.carton", links))
    assert {file.path: file.symlink for file in model.files if file.symlink} == links
    found = contents(model)
    assert all(found[path] == LABELS for path in links)


def test_symlink_without_row(tmp_path: Path) -> None:
    model = read(linked(tmp_path / "a.carton", {"model/a": "labels.txt"}, {}))
    assert contents(model)["model/a"] == LABELS
    assert "'model/a' is not in MANIFEST" in " ".join(model.warnings)


@pytest.mark.parametrize(
    ("links", "sentence"),
    [
        ({"model/a": "../../etc/passwd"}, "leads out of the model"),
        ({"model/a": "/etc/passwd"}, "absolute or not plain"),
        ({"model/a": "x/../labels.txt"}, "absolute or not plain"),
        ({"model/a": "nothing"}, "which is no file of the model"),
        ({"model/a": ""}, "which is no file of the model"),
        ({"model/a": ".."}, "which is no file of the model"),
        ({"a": "model"}, "which is no file of the model"),
        ({"model/a": "a"}, "runs in a circle"),
        ({"model/a": "b", "model/b": "a"}, "runs in a circle"),
        ({"model/a": "../carton.toml"}, "has not the sha256 that MANIFEST gives for the link"),
        ({"model/a": "x" * 5000}, "which is no file of the model"),
    ],
)
def test_refused_symlinks(tmp_path: Path, links: dict[str, str], sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read(linked(tmp_path / "a.carton", links))


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a\\b", "a\0b", "a\nb", "./a", "a//b", "C:/a", "MANIFEST", "CARTON.TOML"]
)
def test_refused_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(carton(tmp_path / "a.carton", extra=[Raw(name.encode(), b"1")]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ((b"model/a", b"model/a"), "appears twice"),
        ((b"model/a", b"model/A"), "collides"),
        (("\u00e9".encode(), "e\u0301".encode()), "collides"),
        ((b"model/a", b"model/a/b"), "both a file and a folder"),
        ((b"model/a", b"model/a/"), "both a file and a folder"),
    ],
)
def test_refused_collisions(tmp_path: Path, names: tuple[bytes, ...], sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read(carton(tmp_path / "a.carton", extra=[Raw(name) for name in names]))


def test_a_folder_that_carries_data(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'model/' is named like a folder but contains 4 bytes; a runner that"):
        read(carton(tmp_path / "a.carton", extra=[Raw(b"model/", b"data")]))


def test_refused_structure(tmp_path: Path) -> None:
    path = tmp_path / "a.carton"
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: carton(path, {"model/a": b"1"}, without=["model/a"]), "neither such a file nor a link"),
        (lambda: carton(path, {"model/a": b"1"}, complete=False), "no carton.toml"),
        (lambda: path.write_bytes(raw_zip([Raw(b"carton.toml", TOML)])), "no MANIFEST"),
        (lambda: carton(path, manifest=b"garbage\n"), "line 1 is no row"),
        (lambda: carton(path, {"carton.toml": b"="}), "carton.toml is not valid TOML"),
        (lambda: path.write_bytes(b"x" + carton(path).read_bytes()), "data before"),
        (lambda: path.write_bytes(carton(path).read_bytes()[:-40]), "no complete zip"),
        (lambda: carton(path, extra=[Raw(b"a", b"1", flags=1)]), "encrypted"),
        (lambda: carton(path, extra=[Raw(b"a", b"1", method=12)]), "bzip2"),
    ]
    for make, sentence in cases:
        make()
        with pytest.raises(FormatError, match=sentence):
            read(path)


def test_metadata_is_verified_at_once(tmp_path: Path) -> None:
    files = whole({})
    for wrong in files:
        manifest = manifest_of({**files, wrong: b"other"})
        with pytest.raises(IntegrityError, match=f"{wrong} has not the sha256 that MANIFEST gives"):
            read(carton(tmp_path / "a.carton", manifest=manifest))


def test_wrong_weights_are_seen_by_whoever_reads_them(tmp_path: Path) -> None:
    files = whole({"model/a": b"1"})
    model = read(carton(tmp_path / "a.carton", files, manifest=manifest_of({**files, "model/a": b"2"})))
    (file,) = (file for file in model.files if file.path == "model/a")
    assert sha(read_all(file.content)) != file.sha256


@pytest.mark.parametrize("name", ["carton.toml", "MANIFEST", "tensor_data/index.toml", "LINKS"])
def test_oversized_metadata(tmp_path: Path, name: str) -> None:
    files = whole({"model/a": b"1"})
    big = b"#" * 5000
    if name == "LINKS":
        path = carton(tmp_path / "a.carton", files, extra=[Raw(b"LINKS", big)], without=["model/a"])
    elif name == "MANIFEST":
        path = carton(tmp_path / "a.carton", files, manifest=big)
    else:
        path = carton(tmp_path / "a.carton", {**files, name: big})
    with pytest.raises(LimitError, match=f"{name} has 5000 bytes, more than the 4000 accepted"):
        read(path, CartonReadOptions(limits=Limits(metadata=4000)))


def test_warnings(tmp_path: Path) -> None:
    path = tmp_path / "a.carton"
    plain = manifest_of(whole({}))
    cases: list[tuple[Callable[[], object], str]] = [
        (
            lambda: carton(path, {"carton.toml": TOML}, complete=False),
            "index.toml is missing; the carton client panics",
        ),
        (lambda: carton(path, manifest=b"\n".join(reversed(plain.split(b"\n")[:2])) + b"\n"), "not sorted"),
        (lambda: carton(path, manifest=plain.replace(b"\n", b"\r\n")), "CRLF"),
        (
            lambda: carton(path, extra=[Raw(b"model/x", b"1")]),
            "'model/x' is not in MANIFEST; it is stored, and the carton",
        ),
        (lambda: carton(path, extra=[Raw(b"LINKS", b"?")]), "LINKS is not stored"),
        (lambda: carton(path, {"carton.toml": TOML.replace(b"runner_compat_version = 1", b"")}), "does not load it"),
        (lambda: carton(path, extra=[Raw(b"model/zero", bytes(9_000_000), 93)]), "'model/zero' expands"),
        (lambda: carton(path, manifest=b""), "'carton.toml' is not in MANIFEST"),
    ]
    for make, sentence in cases:
        make()
        model = read(path)
        assert sentence in " | ".join(model.warnings)
        assert "MANIFEST" in contents(model)
        assert not any(file.path == "LINKS" for file in model.files)


def test_folder_symlinks(tmp_path: Path) -> None:
    files = whole({"model/labels.txt": LABELS})
    folder = lay(tmp_path / "c", files, manifest_of({**files, "model/sub/l": LABELS}))
    (folder / "model/sub").mkdir()
    (folder / "model/sub/l").symlink_to("../labels.txt")
    assert {file.path: file.symlink for file in read(folder).files if file.symlink} == {"model/sub/l": "../labels.txt"}
    assert contents(read(folder))["model/sub/l"] == LABELS


def _link_out(folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"secret")
    (folder / "model/x").symlink_to("../../secret")


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(folder)
        try:
            door.bind("door")
        finally:
            os.chdir(here)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_link_out, "leads out of the model"),
        (lambda folder: (folder / "model/x").symlink_to("/etc/hostname"), "absolute"),
        (lambda folder: (folder / "model/x").symlink_to("x"), "circle"),
        (lambda folder: (folder / "model/x").symlink_to("../model"), "is a link to a folder"),
        (lambda folder: os.mkfifo(folder / "model/x"), "neither a file nor a folder"),
        (_socket, "neither a file nor a folder"),
        (lambda folder: (folder / "model/a\\b").write_bytes(b""), "backslash"),
        (lambda folder: (folder / "model/A").write_bytes(b""), "collides"),
        (lambda folder: (folder / "model/a").unlink(), "neither such a file"),
        (lambda folder: Path(os.fsdecode(bytes(folder / "model") + b"/\xff")).write_bytes(b""), "not valid Unicode"),
    ],
)
def test_refused_folders(tmp_path: Path, spoil: Callable[[Path], object], sentence: str) -> None:
    folder = lay(tmp_path / "c", whole({"model/a": b"1"}))
    spoil(folder)
    with pytest.raises(FormatError, match=sentence):
        read(folder)


def test_limits_of_folders_and_missing_paths(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="more than the 3 files"):
        read(lay(tmp_path / "c", whole({"model/a": b"1"})), CartonReadOptions(limits=Limits(entries=3)))
    with pytest.raises(SourceError, match="no such file"):
        read(tmp_path / "missing.carton")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray((FIXTURES / "digits-stored.carton").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.one_of(st.integers(0, len(raw) - 1), st.integers(len(raw) - 2400, len(raw) - 1)))
        raw[at] = data.draw(st.integers(0, 255))
    path = tmp_path / "a.carton"
    path.write_bytes(raw)
    try:
        for file in read(path).files:
            read_all(file.content)
    except OcibridgeError as exc:
        assert exc.message


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.sampled_from(["MANIFEST", "carton.toml", "LINKS", "tensor_data/index.toml", "model/a", "model", "model/"]),
        st.one_of(st.binary(max_size=50), st.sampled_from([TOML, INDEX, b"", manifest_of(whole({}))])),
    )
)
def test_any_members(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = tmp_path / "a.carton"
    path.write_bytes(raw_zip([Raw(name.encode(), data) for name, data in files.items()]))
    try:
        contents(read(path))
    except OcibridgeError as exc:
        assert exc.message

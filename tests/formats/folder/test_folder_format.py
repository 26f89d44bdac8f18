# SPDX-License-Identifier: Apache-2.0
"""Folders as models, and back."""

import hashlib
import tarfile
from pathlib import Path

import gguf
import pytest
from safetensors.numpy import load_file

from ocibridge.errors import FormatError, UsageError
from ocibridge.formats.base import WriteOptions
from ocibridge.formats.facts import param_size
from ocibridge.formats.folder import FolderFormat
from ocibridge.formats.folder.options import FolderReadOptions
from ocibridge.model import Role

from ..build import contents, fill, stored_of

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    path = tmp_path / "digits"
    path.mkdir()
    with tarfile.open(FIXTURES / "hf-digits.tar") as tar:
        for entry in tar:
            member = tar.extractfile(entry)
            if member:
                (path / entry.name).write_bytes(member.read())
    return path


def test_the_hugging_face_folder(digits: Path) -> None:
    model = FolderFormat().read(digits, FolderReadOptions())
    assert {file.path: (file.role, file.guessed) for file in model.files} == {
        "LICENSE": (Role.DOC, False),
        "README.md": (Role.DOC, False),
        "config.json": (Role.WEIGHT_CONFIG, False),
        "model-00001-of-00002.safetensors": (Role.WEIGHT, False),
        "model-00002-of-00002.safetensors": (Role.WEIGHT, False),
        "model.safetensors.index.json": (Role.WEIGHT_CONFIG, False),
        "tokenizer_config.json": (Role.WEIGHT_CONFIG, False),
    }
    arrays = [array for path in digits.glob("*.safetensors") for array in load_file(path).values()]
    assert {str(array.dtype) for array in arrays} == {"float32"}
    info = model.info
    assert (info.name, info.family, info.format, info.licenses) == ("digits", "digitnet", "safetensors", ("MIT",))
    assert (info.precision, info.param_size) == ("fp32", param_size(sum(array.size for array in arrays)))
    assert info.param_size == "9.3K"
    assert (info.architecture, info.quantization) == (None, None)
    assert model.origin == {
        "folder.layout": "huggingface",
        "folder.library": "pytorch",
        "folder.task": "image-classification",
    }
    assert (model.format, model.identity, model.warnings) == ("folder", None, ())


def test_where_a_folder_stands_does_not_matter(digits: Path, tmp_path: Path) -> None:
    before = FolderFormat().read(digits, FolderReadOptions())
    after = FolderFormat().read(digits.rename(tmp_path / "elsewhere"), FolderReadOptions())
    assert (before.info, before.origin) == (after.info, after.origin)
    assert [(f.path, f.role, f.size) for f in before.files] == [(f.path, f.role, f.size) for f in after.files]


def test_a_gguf_file_from_the_ollama_store(tmp_path: Path) -> None:
    path = tmp_path / "tiny.GGUF"
    with tarfile.open(FIXTURES / "ollama-store.tar") as tar:
        blobs = (tar.extractfile(entry) for entry in tar if "/sha256-" in entry.name)
        path.write_bytes(next(data for blob in blobs if blob and (data := blob.read())[:4] == b"GGUF"))
    assert FolderFormat().matches(path)
    model = FolderFormat().read(path, FolderReadOptions())
    oracle = gguf.GGUFReader(path)
    assert [file.path for file in model.files] == ["tiny.GGUF"]
    assert model.info.name == oracle.fields["general.name"].contents() == "TinyLlama Test"
    assert model.info.family == oracle.fields["general.architecture"].contents() == "llama"
    assert model.info.param_size == param_size(sum(int(each.n_elements) for each in oracle.tensors))
    assert (model.info.quantization, model.info.licenses) == ("Q8_0", ("MIT",))
    assert model.origin == {"folder.layout": "gguf", "folder.context_length": "256"}


def test_a_round_trip_file_by_file(digits: Path, tmp_path: Path) -> None:
    (digits / "sub").mkdir()
    (digits / "sub" / "c.json").symlink_to("../config.json")
    (digits / ".ocibridgeignore").write_text("*.log\n")
    (digits / ".ocibridge.toml").write_text("[model]\nversion = '2'\n")
    (digits / "x.log").touch()
    form = FolderFormat()
    model = form.read(digits, FolderReadOptions())
    assert model.info.version == "2"
    assert model.warnings == ("1 file or folder ('x.log') is ignored",)
    assert fill(form.sink(tmp_path / "copy", stored_of(model), WriteOptions()), model) is None
    again = form.read(tmp_path / "copy", FolderReadOptions())
    assert contents(again) == contents(model)
    assert (again.info, again.origin) == (model.info, model.origin)
    assert [(f.path, f.role, f.symlink) for f in again.files] == [(f.path, f.role, f.symlink) for f in model.files]
    assert (tmp_path / "copy" / "sub" / "c.json").is_symlink()
    checker = form.checker(stored_of(model))
    fill(checker, model)
    assert checker.hashes.keys() == contents(model).keys()
    config = hashlib.sha256((digits / "config.json").read_bytes()).hexdigest()
    assert hashlib.sha256((tmp_path / "copy" / "sub" / "c.json").read_bytes()).hexdigest() == config


def test_whose_rule_wins(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", "c.bin", "d.bin"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".ocibridge.toml").write_text("[roles]\n'b*' = 'doc'\n'[bc]*' = 'dataset'\n'a*' = 'doc'\n")
    model = FolderFormat().read(tmp_path, FolderReadOptions(roles=(("a.bin", Role.CODE),)))
    roles = {file.path: file.role for file in model.files}
    assert [roles[f"{name}.bin"] for name in "abcd"] == [Role.CODE, Role.DOC, Role.DATASET, Role.WEIGHT]
    assert roles[".ocibridge.toml"] is Role.WEIGHT_CONFIG


def test_a_rule_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(UsageError, match=r"the rule '\[a=doc' is no pattern of gitignore; correct its glob"):
        FolderFormat().read(tmp_path, FolderReadOptions(roles=(("[a", Role.DOC),)))


def test_files_of_secrets_and_caches_stay_at_home(tmp_path: Path) -> None:
    for name in (
        ".git/config",
        ".env",
        "x.enckey",
        "src/__pycache__/a.pyc",
        ".cache/huggingface/x",
        ".cache/y",
        "a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    model = FolderFormat().read(tmp_path, FolderReadOptions())
    assert [file.path for file in model.files] == [".cache/y", "a.py"]
    assert model.warnings[0] == "5 files or folders ('.cache/huggingface', '.env', '.git', ...) are ignored"
    (tmp_path / ".ocibridgeignore").write_text("!.env\n")
    assert ".env" in [file.path for file in FolderFormat().read(tmp_path, FolderReadOptions()).files]


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(FormatError, match="has no file to store; check the path"):
        FolderFormat().read(tmp_path, FolderReadOptions())


def test_what_it_matches(tmp_path: Path) -> None:
    form = FolderFormat()
    (tmp_path / "a.gguf").touch()
    (tmp_path / "a.txt").touch()
    assert form.matches(tmp_path)
    assert form.matches(tmp_path / "a.gguf")
    assert not form.matches(tmp_path / "a.txt")
    assert not form.matches(tmp_path / "b.gguf")
    assert not form.suits(tmp_path / "Qwen3-0.6B"), "a folder is what has no other format's name"


def test_code_and_pickles_are_bytes(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    folder = tmp_path / "model"
    folder.mkdir()
    code = f"open({str(mark)!r}, 'w')"
    for name in ("modeling_x.py", "conftest.py", "__init__.py", "sitecustomize.py"):
        (folder / name).write_text(code)
    pickled = f"cbuiltins\nexec\n(V{code}\ntR.".encode()
    for name in ("pytorch_model.bin", "model.pt", "model.safetensors", "model.gguf", "x.pkl", "x.npy"):
        (folder / name).write_bytes(pickled)
    (folder / "config.json").write_text('{"auto_map": {"AutoModel": "modeling_x.X"}}')
    contents(FolderFormat().read(folder, FolderReadOptions()))
    assert not mark.exists()

# SPDX-License-Identifier: Apache-2.0
"""What of a folder is published: selected files, no secrets, no layouts, the snapshot of a cache of huggingface_hub."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import ocibridge

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----\n"
SECRETS = """
    id_rsa .ssh/id_ed25519 .env.local .envrc conf/.npmrc .pypirc .git-credentials credentials.json
    credentials-prod.json client_secret_1.json token token.txt .token hf_token .hf_token.txt huggingface_token
    stored_tokens .huggingface/token .aws/config .docker/config.json sub/.kube/config .gnupg/x TOKEN.TXT server.key
    cert/server.pem
"""
REAL = """
    config.json generation_config.json tokenizer.json tokenizer.model tokenizer_config.json tokenization_chatglm.py
    special_tokens_map.json added_tokens.json tokens.txt tokens.json token_embeddings.safetensors
    bpe_simple_vocab_16e6.txt token_type_embeddings.npy prompt_token_ids.npy vocab.json vocab.txt merges.txt
    model.safetensors.index.json model-00001-of-00002.safetensors pytorch_model.bin model.pt key.npy keys.json
    public.pem ca.key README.md LICENSE .gitattributes .env.example environment.yml environment.py identity.json
    id_to_label.json secrets.md tokenizer/token.py preprocessor_config.json chat_template.jinja modeling_chatglm.py
    feature_extractor/preprocessor_config.json onnx/model.onnx openvino/openvino_model.xml 1_Pooling/config.json
    token_classification/config.json credentials.md
"""


def made(root: Path, names: str) -> Path:
    for name in names.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        key = name.endswith(("server.key", "server.pem"))
        (root / name).write_bytes(KEY if key else b"{}")
    return root


def files(reference: str) -> list[str]:
    return sorted(file.path for file in ocibridge.inspect(reference).files)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return made(tmp_path / "mine", "config.json a.bin data/b.bin data/c.txt")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include": ["*.bin"]}, ["a.bin", "data/b.bin"]),
        ({"include": ["data"]}, ["data/b.bin", "data/c.txt"]),
        ({"include": ["data/", "config.json"]}, ["config.json", "data/b.bin", "data/c.txt"]),
        ({"include": ["/*.bin"]}, ["a.bin"]),
        ({"exclude": ["*.bin"]}, ["config.json", "data/c.txt"]),
        ({"exclude": ["config.json", "data/"]}, ["a.bin"]),
        ({"include": ["*.bin"], "exclude": ["data"]}, ["a.bin"]),
    ],
)
def test_a_selection_is_what_the_folder_without_the_rest_would_be(
    model: Path, options: dict[str, list[str]], expected: list[str], tmp_path: Path
) -> None:
    pushed = ocibridge.push(model, f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(**options))  # type: ignore[arg-type]
    assert files(pushed.reference) == expected
    assert pushed.left_out_count > 0
    for path in [path for path in model.rglob("*") if path.is_file()]:
        if path.relative_to(model).as_posix() not in expected:
            path.unlink()
    assert ocibridge.push(model, f"oci:{tmp_path}/x:v2").digest == pushed.digest


def test_links_to_what_is_not_selected_are_copies(model: Path, tmp_path: Path) -> None:
    (model / "link.bin").symlink_to("config.json")
    (model / "broken.txt").symlink_to("nowhere")
    pushed = ocibridge.push(model, f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(include=["*.bin"]))
    assert files(pushed.reference) == ["a.bin", "data/b.bin", "link.bin"]
    assert [file.symlink for file in ocibridge.inspect(pushed.reference).files] == [None] * 3


def test_nothing_left_is_an_error(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.FormatError, match="no file to store; check the path, --include, --exclude and"):
        ocibridge.push(model, f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(include=["*.gguf"]))
    assert not (tmp_path / "x").exists()


def test_archives_are_whole(tmp_path: Path) -> None:
    carton = Path(__file__).parents[1] / "fixtures" / "digits.carton"
    for options, flag in (({"include": ["*"]}, "--include"), ({"exclude": ["x"]}, "--exclude")):
        with pytest.raises(ocibridge.UsageError, match=f"{flag} is for folders, and .* is none; leave it out"):
            ocibridge.push(carton, f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(**options))  # type: ignore[arg-type]
    with pytest.raises(ocibridge.UsageError, match="give a glob such as"):
        ocibridge.push(tmp_path, f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(include=["!x"]))


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_is_refused_and_the_next_step_works(name: str, tmp_path: Path) -> None:
    root, target = made(tmp_path / "mine", f"model.bin {name}"), f"oci:{tmp_path}/x:v1"
    with pytest.raises(ocibridge.SourceError) as caught:
        ocibridge.push(root, target)
    assert repr(name) in caught.value.message
    assert not (tmp_path / "x").exists()
    (exclude,) = re.findall(r"\(--exclude (.+?)\)", caught.value.hint or "")
    pushed = ocibridge.push(root, target, ocibridge.PushOptions(exclude=shlex.split(exclude)))
    assert files(pushed.reference) == ["model.bin"]
    pushed = ocibridge.push(root, target, ocibridge.PushOptions(allow_sensitive=True))
    assert files(pushed.reference) == sorted(["model.bin", name])


def test_many_secrets_are_counted(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", "a/token b/token c/token d/token x.bin")
    with pytest.raises(ocibridge.SourceError, match=r"'a/token', 'b/token', 'c/token' and 1 more; .* …\), or publish"):
        ocibridge.push(root, f"oci:{tmp_path}/x:v1")


def test_names_of_real_models_are_no_secrets(tmp_path: Path) -> None:
    pushed = ocibridge.push(made(tmp_path / "mine", REAL), f"oci:{tmp_path}/x:v1")
    assert files(pushed.reference) == sorted(REAL.split())


def test_a_conversion_refuses_secrets_too(tmp_path: Path) -> None:
    root = made(tmp_path / "mine", "model.bin token")
    with pytest.raises(ocibridge.SourceError, match=r"\(--exclude /token\), or publish them \(--allow-sensitive\)"):
        ocibridge.convert(root, f"oci:{tmp_path}/x:v1")
    ocibridge.convert(root, f"oci:{tmp_path}/x:v1", ocibridge.ConvertOptions(exclude=["/token"]))
    assert files(f"oci:{tmp_path}/x:v1") == ["model.bin"]
    ocibridge.convert(root, f"oci:{tmp_path}/x:v1", ocibridge.ConvertOptions(allow_sensitive=True))
    assert files(f"oci:{tmp_path}/x:v1") == ["model.bin", "token"]


def test_the_ignore_file_is_no_part_of_the_model(model: Path, tmp_path: Path) -> None:
    plain = ocibridge.push(model, f"oci:{tmp_path}/x:v1")
    (model / "x.log").touch()
    (model / ".ocibridgeignore").write_text("*.log\n")
    pushed = ocibridge.push(model, f"oci:{tmp_path}/x:v2")
    assert (pushed.digest, pushed.left_out_count) == (plain.digest, 2)
    assert pushed.warnings == ["1 file or folder ('x.log') is ignored"]


@pytest.mark.parametrize("target", ["oci:{}/out:v1", "oci-archive:{}/out.tar:v1", "oci:{}/deep/er/out:v1"])
def test_a_target_in_the_folder_is_left_out(model: Path, target: str, tmp_path: Path) -> None:
    expected = ocibridge.push(model, f"oci:{tmp_path}/elsewhere:v1").digest
    for _ in range(2):
        assert ocibridge.push(model, target.format(model)).digest == expected
    pushed = ocibridge.push(model, target.format(model))
    assert any("is left out, being the target" in warning for warning in pushed.warnings)


def test_a_layout_in_the_folder_is_left_out(model: Path, tmp_path: Path) -> None:
    expected = ocibridge.push(model, f"oci:{tmp_path}/x:v1").digest
    ocibridge.push(model, f"oci:{model}/old:v1")
    pushed = ocibridge.push(model, f"oci:{tmp_path}/x:v2")
    assert pushed.digest == expected
    assert pushed.warnings == ["1 file or folder ('old') is left out, being an image layout"]


def test_a_layout_is_no_model_and_no_target_of_itself(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.UsageError, match=r"the target is the folder .* itself; give a target elsewhere"):
        ocibridge.push(model, f"oci:{model}:v1")
    ocibridge.push(model, f"oci:{tmp_path}/x:v1")
    with pytest.raises(ocibridge.FormatError, match=r"x is an image layout, and no model; .*'ocibridge copy oci:"):
        ocibridge.push(tmp_path / "x", f"oci:{tmp_path}/y:v1")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The cache of huggingface_hub after a download: files are links to blobs."""
    root = tmp_path / "hub" / "models--org--name"
    snapshot = root / "snapshots" / "0123abc"
    (snapshot / "sub").mkdir(parents=True)
    made(root, "blobs/one blobs/two")
    (root / "blobs" / "one").write_text('{"model_type": "llama"}')
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("0123abc")
    (snapshot / "config.json").symlink_to("../../blobs/one")
    (snapshot / "sub" / "model.bin").symlink_to("../../../blobs/two")
    (snapshot / "again.bin").symlink_to("../../blobs/two")
    return root


def test_a_cache_of_huggingface_hub_is_its_snapshot(cache: Path, tmp_path: Path) -> None:
    shutil.copytree(cache / "snapshots" / "0123abc", tmp_path / "copy")
    expected = ocibridge.push(tmp_path / "copy", f"oci:{tmp_path}/x:v1")
    assert files(expected.reference) == ["again.bin", "config.json", "sub/model.bin"]
    (cache / "snapshots" / "other").mkdir()
    (tmp_path / "link").symlink_to(cache / "snapshots" / "0123abc")
    for source in (cache, cache / "snapshots" / "0123abc", tmp_path / "link"):
        found = ocibridge.push(source, f"oci:{tmp_path}/x:v2", ocibridge.PushOptions(cache=False))
        assert found.digest == expected.digest
        assert found.warnings == (["the snapshot 0123abc is taken"] if source == cache else [])


def test_which_snapshot_is_meant(cache: Path, tmp_path: Path) -> None:
    (cache / "refs" / "main").unlink()
    assert ocibridge.push(cache, f"oci:{tmp_path}/x:v1").left_out_count == 0
    made(cache / "snapshots", "456/config.json")
    with pytest.raises(ocibridge.FormatError) as caught:
        ocibridge.push(cache, f"oci:{tmp_path}/x:v1")
    assert caught.value.message == f"{cache} has 2 snapshots: '0123abc', '456'"
    assert caught.value.hint == f"give one of them, such as {cache}/snapshots/0123abc"
    (cache / "refs" / "main").write_text("../../..")
    with pytest.raises(ocibridge.FormatError, match="has 2 snapshots"):
        ocibridge.push(cache, f"oci:{tmp_path}/x:v1")
    shutil.rmtree(cache / "snapshots")
    (cache / "snapshots").mkdir()
    with pytest.raises(ocibridge.SourceError, match="has no snapshot; download the model again"):
        ocibridge.push(cache, f"oci:{tmp_path}/x:v1")


def test_the_cache_itself_is_no_model(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.FormatError) as caught:
        ocibridge.push(cache.parent, f"oci:{tmp_path}/x:v1")
    assert caught.value.message == f"{cache.parent} is a cache of huggingface_hub, with 1 model in it"
    assert caught.value.hint == f"give one of them, such as {cache}"
    ocibridge.push(cache, f"oci:{tmp_path}/x:v1")


def test_other_links_out_of_a_snapshot_are_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "foreign").touch()
    (cache / "snapshots" / "0123abc" / "x").symlink_to(tmp_path / "foreign")
    with pytest.raises(ocibridge.FormatError, match="'x' leads out of the folder, and its target"):
        ocibridge.push(cache, f"oci:{tmp_path}/x:v1")

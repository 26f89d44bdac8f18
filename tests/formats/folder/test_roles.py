# SPDX-License-Identifier: Apache-2.0
"""The table of roles, and the rules that come before it."""

import pytest

from ocibridge.formats.folder.globs import Glob
from ocibridge.formats.folder.roles import DEFAULT_RULES, RoleTable, Rule
from ocibridge.model import Role
from ocibridge.settings import SMALL_FILE

EXPECTED = {
    Role.DOC: "README README.md readme.txt LICENSE LICENSE.md LICENSE.json NOTICE docs/a.md sample.png paper.pdf a.txt",
    Role.CODE: "modeling_x.py run.sh requirements.txt requirements-dev.txt package.json pyproject.toml Makefile a.so "
    "lib.so.1 x.ipynb .gitattributes .ocibridgeignore CMakeLists.txt uv.lock",
    Role.WEIGHT_CONFIG: "config.json tokenizer.json tokenizer.model tokenizer.model.v3 vocab.txt merges.txt "
    "spiece.model chat_template.jinja a.yaml x.modelcard .ocibridge.toml params a.safetensors.index.json a.meta",
    Role.WEIGHT: "model.safetensors MODEL.GGUF pytorch_model.bin a/b/model.onnx model.onnx_data model.h5 x.pkl "
    "a.data-00000-of-00001 a.index unigram.model w.npz consolidated.00.pth",
    Role.DATASET: "train.parquet data/x.csv a.arrow",
}


@pytest.mark.parametrize(("role", "path"), [(role, path) for role, text in EXPECTED.items() for path in text.split()])
def test_the_default_table(role: Role, path: str) -> None:
    assert RoleTable().role_of(path, 1) == (role, False)


@pytest.mark.parametrize("path", ["unknown", "x.unknown", "a.bin/x", "weights.safetensors/inner", "README.d/x.foo"])
def test_the_unknown_is_guessed_by_its_size(path: str) -> None:
    assert RoleTable().role_of(path, SMALL_FILE - 1) == (Role.WEIGHT_CONFIG, True)
    assert RoleTable().role_of(path, SMALL_FILE) == (Role.WEIGHT, True)


def test_rules_come_before_the_table_and_in_order() -> None:
    table = RoleTable((Rule("assets/*.BIN", Role.DOC), Rule("*.bin", Role.DATASET), Rule("src/", Role.CODE)))
    assert table.role_of("Assets/x.bin", 1) == (Role.DOC, False)
    assert table.role_of("assets/sub/x.bin", 1) == (Role.DATASET, False)
    assert table.role_of("a/src/b/config.json", 1) == (Role.CODE, False)
    assert table.role_of("src", 1) == (Role.WEIGHT_CONFIG, True)


def test_every_rule_can_match() -> None:
    """No rule is hidden behind an earlier one with the same glob."""
    globs = [rule.glob.lower() for rule in DEFAULT_RULES]
    assert sorted(set(globs)) == sorted(globs)
    for glob in globs:
        Glob(glob)

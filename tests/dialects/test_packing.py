# SPDX-License-Identifier: Apache-2.0
"""How many layers there are, and what shares one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.dialects.choices import Compress, Layers
from ocibridge.dialects.packing import folder_prefix, pack
from ocibridge.dialects.writing import PlanOptions, plan_manifest
from ocibridge.errors import FormatError, LimitError, UsageError
from ocibridge.io.content import BytesContent
from ocibridge.layers import Layer, describe
from ocibridge.model import Model, ModelFile, Role
from ocibridge.settings import MAX_LAYERS, Limits

from .models import SMALL, file


def weights(*sizes: int) -> list[ModelFile]:
    return [file(f"w-{number:05}.bin", Role.WEIGHT, b"w" * size) for number, size in enumerate(sizes)]


def packed(files: list[ModelFile], most: int, layers: Layers = Layers.TAR) -> list[list[str]]:
    return [[each.path for each in found.layer.files] for found in pack(files, layers, Compress.NONE, most)]


def test_weights_stand_alone_as_long_as_there_is_room() -> None:
    files = weights(1, 2, 3)
    assert packed(files, 3) == [["w-00000.bin"], ["w-00001.bin"], ["w-00002.bin"]]


def test_neighbours_share_a_layer_as_evenly_as_may_be() -> None:
    assert packed(weights(5, 5, 5, 5), 2) == [["w-00000.bin", "w-00001.bin"], ["w-00002.bin", "w-00003.bin"]]
    assert packed(weights(9, 1, 1, 1), 2) == [["w-00000.bin"], ["w-00001.bin", "w-00002.bin", "w-00003.bin"]]
    assert packed(weights(1, 1, 1, 9), 2) == [["w-00000.bin", "w-00001.bin", "w-00002.bin"], ["w-00003.bin"]]
    assert packed(weights(0, 0, 0), 2) == [["w-00000.bin", "w-00001.bin"], ["w-00002.bin"]]


def test_shards_of_one_size_never_share_three_to_a_layer_where_two_do() -> None:
    found = packed(weights(*[7] * 163), 120)
    assert len(found) == 120
    assert {len(each) for each in found} == {1, 2}


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    most=st.integers(1, 45),
    seed=st.randoms(use_true_random=False),
)
def test_whatever_the_sizes(sizes: list[int], most: int, seed: object) -> None:
    files = weights(*sizes)
    expected = packed(files, most)
    assert len(expected) == min(most, len(sizes))
    assert [path for group in expected for path in group] == [each.path for each in files], "neighbours, in order"
    seed.shuffle(files)  # type: ignore[attr-defined]
    assert packed(files, most) == expected, "the order of the source does not count"


def test_weights_share_before_anything_else_does() -> None:
    """Of SMALL: two weights, one layer for each of four roles, README and LICENSE."""
    assert len(packed(list(SMALL.files), 8)) == 8
    seven = packed(list(SMALL.files), 7)
    assert ["model-1.safetensors", "model-2.safetensors"] in seven
    assert ["README.md"] in seven
    five = packed(list(SMALL.files), 5)
    assert len(five) == 5
    with pytest.raises(UsageError, match="5 layers") as caught:
        packed(list(SMALL.files), 4)
    assert "--max-layers 5" in str(caught.value)


def test_raw_layers_hold_one_file_each() -> None:
    assert len(packed(weights(1, 1, 1), 2, Layers.RAW)) == 3
    assert len(packed(weights(1, 1, 1), 2, Layers.RAW_FILES)) == 3


def test_a_model_of_very_many_small_weights_has_a_manifest() -> None:
    """One layer each would make a manifest that no registry takes; the limit is a small one here."""
    model = Model("folder", tuple(weights(*range(100))))
    limits = Limits(manifest=20_000)

    def sealed(most: int) -> dict[str, object]:
        plan = plan_manifest(model, PlanOptions(max_layers=most, limits=limits))
        document: dict[str, object] = json.loads(
            plan.build([describe(each) for each in plan.layers if isinstance(each, Layer)]).manifest
        )
        return document

    with pytest.raises(LimitError, match="a manifest of 100 layers") as caught:
        sealed(100)
    assert "--max-layers" in str(caught.value)
    assert "--layers tar" not in str(caught.value)
    document = sealed(10)
    assert len(document["layers"]) == 10  # type: ignore[arg-type]


def test_the_default_leaves_room_for_the_layers_of_a_runtime() -> None:
    plan = plan_manifest(Model("folder", tuple(weights(*[1] * (MAX_LAYERS + 43)))), PlanOptions())
    assert len(plan.layers) == MAX_LAYERS < 128


def test_a_prefix_is_the_name_of_a_folder() -> None:
    assert [folder_prefix(each) for each in ("", "models", "models/", "a/b/")] == ["", "models/", "models/", "a/b/"]
    for wrong in ("/", "/models", "../x", "a//", "a/./b", "C:x", "a\\b", "."):
        with pytest.raises(UsageError, match="--prefix"):
            folder_prefix(wrong)
    deletion = ModelFile("x", Role.WEIGHT, BytesContent(b""))
    with pytest.raises(FormatError, match="deletion mark"):
        plan_manifest(Model("folder", (deletion,)), PlanOptions(prefix=folder_prefix(".wh.models")))

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import UsageError
from ocibridge.mirror.shards import Shard


@given(st.text(), st.integers(1, 40))
def test_every_name_belongs_to_exactly_one_shard(name: str, count: int) -> None:
    assert sum(Shard(index, count).has(name) for index in range(count)) == 1


def test_who_has_what_never_changes() -> None:
    # Pods of different versions work on the same job: this is a format.
    assert [Shard(index, 4).has("models/digits") for index in range(4)].index(True) == 0
    assert [Shard(index, 4).has("models/phi") for index in range(4)].index(True) == 3


def test_shards_are_of_similar_size() -> None:
    sizes = [sum(Shard(index, 8).has(f"models/m{number}") for number in range(4000)) for index in range(8)]
    assert min(sizes) > 400
    assert max(sizes) < 600


def test_the_index_comes_from_an_indexed_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    assert Shard.parse("/16") == Shard(3, 16)
    assert str(Shard.parse("5/16")) == "5/16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "'3' is no shard"),
        ("16/16", "there is no shard 16 of 16"),
        ("0/0", "there is no shard 0 of 0"),
        ("/4", "the shard '/4' has no index, and the environment has no JOB_COMPLETION_INDEX"),
        ("-1/4", "'-1/4' is no shard"),
        ("٣/١٦", "is no shard"),
    ],
)
def test_what_is_no_shard_is_refused(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    with pytest.raises(UsageError, match=message):
        Shard.parse(text)


def test_a_strange_index_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "first")
    with pytest.raises(UsageError, match="there is no shard first of 4"):
        Shard.parse("/4")

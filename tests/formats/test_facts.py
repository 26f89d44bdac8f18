# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.formats.facts import dominant, param_size, precision, spdx, split_file_type


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        (0, None),
        (49, None),
        (50, "0.1K"),
        (999, "1K"),
        (9_258, "9.3K"),
        (112_448, "112.4K"),
        (999_949, "999.9K"),
        (999_950, "1M"),
        (136_730_000, "136.7M"),
        (8_030_261_248, "8B"),
        (70_553_706_496, "70.6B"),
        (1_000_000_000_000, "1T"),
        (2 * 10**15, "2Q"),
        (5 * 10**18, "5000Q"),
    ],
)
def test_param_size(parameters: int, word: str | None) -> None:
    assert param_size(parameters) == word


@given(st.integers(50, 10**20))
def test_param_size_is_a_word_of_the_specification_and_off_by_at_most_half_a_tenth(parameters: int) -> None:
    word = param_size(parameters)
    assert word is not None
    assert re.fullmatch(r"[0-9]+(\.[0-9])?[KMBTQ]", word)
    unit = 1000 ** ("KMBTQ".index(word[-1]) + 1)
    whole, _, tenth = word[:-1].partition(".")
    tenths = int(whole) * 10 + int(tenth or 0)
    assert abs(tenths * unit - parameters * 10) * 2 <= unit


def test_dominant_does_not_depend_on_order() -> None:
    assert dominant({}) is None
    assert dominant({"F32": 1, "BF16": 9}) == "BF16"
    assert dominant({"F32": 4, "BF16": 4}) == dominant({"BF16": 4, "F32": 4}) == "BF16"


@pytest.mark.parametrize(
    ("elements", "word"),
    [
        ({}, None),
        ({"F32": 0}, None),
        ({"F32": 10}, "fp32"),
        ({"BF16": 90, "F32": 10}, "bf16"),
        ({"F8_E4M3": 90, "F32": 10}, "fp8"),
        ({"I8": 90, "F16": 10}, "int8"),
        ({"F16": 50, "F32": 50}, "mixed"),
        ({"I32": 90, "F16": 10}, None),
        ({"U8": 90, "BF16": 10}, None),
    ],
)
def test_precision(elements: dict[str, int], word: str | None) -> None:
    assert precision(elements) == word


def test_a_file_type_is_a_precision_or_a_quantisation() -> None:
    assert split_file_type("BF16") == ("bf16", None)
    assert split_file_type("F32") == ("fp32", None)
    assert split_file_type("Q4_K_M") == (None, "Q4_K_M")
    assert split_file_type(None) == (None, None)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("apache-2.0", "Apache-2.0"),
        ("MIT", "MIT"),
        ("gpl-2.0+", "GPL-2.0+"),
        ("mit or ( Apache-2.0 AND  cc0-1.0)", "MIT OR (Apache-2.0 AND CC0-1.0)"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("LicenseRef-llama3", "LicenseRef-llama3"),
        ("hippocratic-2.1", "Hippocratic-2.1"),
    ],
)
def test_licence_expressions(text: str, expression: str) -> None:
    assert spdx(text) == expression
    assert spdx(expression) == expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "other",
        "llama3.1",
        "MIT License",
        "MIT MIT",
        "MIT OR",
        "OR MIT",
        "()",
        "(MIT",
        "MIT)",
        ")MIT(",
        "MIT (MIT)",
        "MIT WITH",
        "MIT WITH MIT",
        "(MIT) WITH Classpath-exception-2.0",
        "https://example.org/licence",
        "MIT\0",
        "MIT OR " * 1000 + "MIT",
        "(" * 400 + "MIT" + ")" * 400,
    ],
)
def test_anything_else_is_no_licence_expression(text: str) -> None:
    assert spdx(text) is None


@given(st.text(alphabet="()+-MIT OR2.0", max_size=60) | st.text())
def test_canonical_spelling_is_final(text: str) -> None:
    expression = spdx(text)
    assert expression is None or spdx(expression) == expression

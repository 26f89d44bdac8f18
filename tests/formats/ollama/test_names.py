# SPDX-License-Identifier: Apache-2.0
"""Names against Ollama's rules."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import InvalidReference
from ocibridge.formats.ollama.names import OllamaName, parse_ollama_name, parse_ollama_url


@pytest.mark.parametrize(
    ("text", "full", "short"),
    [
        ("llama3", "registry.ollama.ai/library/llama3:latest", "llama3:latest"),
        ("llama3.2:1b-q4_K_M", "registry.ollama.ai/library/llama3.2:1b-q4_K_M", "llama3.2:1b-q4_K_M"),
        ("mylab/m:q8", "registry.ollama.ai/mylab/m:q8", "mylab/m:q8"),
        ("registry.ollama.ai/library/m:1", "registry.ollama.ai/library/m:1", "m:1"),
        ("localhost:5000/a/m", "localhost:5000/a/m:latest", "localhost:5000/a/m:latest"),
        ("hf.co/bartowski/Llama-3.2-1B-GGUF:Q4_K_M",) + ("hf.co/bartowski/Llama-3.2-1B-GGUF:Q4_K_M",) * 2,
        ("_a/_b:_c", "registry.ollama.ai/_a/_b:_c", "_a/_b:_c"),
    ],
)
def test_names(text: str, full: str, short: str) -> None:
    name = parse_ollama_name(text)
    assert (str(name), name.short) == (full, short)
    assert parse_ollama_name(full) == parse_ollama_name(short) == name


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":tag",
            "m:",
            "/m",
            "a//m",
            "h/a/b/m",
            "m:a:b",
            "a.b/m",
            "-m",
            "m:.x",
            ".",
            "..",
            "../m",
            "a/..:x",
            "m\n",
        ),
        *("m@sha256:" + "0" * 64, "http://h/a/m", "m t", "é", "a/é", "m\\x", "x" * 81, "m:" + "x" * 81),
        *("x" * 81 + "/m", "x" * 351 + "/a/m", "h/a:1/m"),
    ],
)
def test_names_that_break_the_rules(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse_ollama_name(text)


def test_lengths_at_the_limit() -> None:
    name = OllamaName("m" * 80, "t" * 80, "n" * 80, "h" * 350)
    assert parse_ollama_name(str(name)) == name


def test_urls() -> None:
    name = parse_ollama_url("ollama://localhost:11435/x/m:1")
    assert (name.host, name.repository, name.tag) == ("localhost:11435", "x/m", "1")
    for text in ("x/m", "ollama:x/m", "ollama://m", "ollama://x/m", "ollama://h/a/b/m", "ollama://", "OLLAMA://h/a/m"):
        with pytest.raises(InvalidReference):
            parse_ollama_url(text)


@given(st.text(alphabet="aZ0_.-:/@\\~ é\n\0", max_size=30))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    with suppress(InvalidReference):
        name = parse_ollama_name(text)
        assert parse_ollama_name(str(name)) == parse_ollama_name(name.short) == name
        assert not {"", ".", ".."}.intersection(name.parts)
        assert not any(set(part) & set("/\\\0\n ") for part in name.parts)

# SPDX-License-Identifier: Apache-2.0
"""Names of Ollama models: `[[HOST/]NAMESPACE/]MODEL[:TAG]` (Ollama, types/model/name.go)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import InvalidReference
from ...paths import show

DEFAULT_HOST = "registry.ollama.ai"
DEFAULT_NAMESPACE = "library"
DEFAULT_TAG = "latest"
SCHEME = "ollama://"

_FIRST = "[A-Za-z0-9_]"
_RULES = {
    "host": (re.compile(_FIRST + r"[A-Za-z0-9_.:-]{0,349}"), "at most 350 letters, digits, '_', '-', '.' and ':'"),
    "namespace": (re.compile(_FIRST + r"[A-Za-z0-9_-]{0,79}"), "at most 80 letters, digits, '_' and '-'"),
    "model": (re.compile(_FIRST + r"[A-Za-z0-9_.-]{0,79}"), "at most 80 letters, digits, '_', '-' and '.'"),
    "tag": (re.compile(_FIRST + r"[A-Za-z0-9_.-]{0,79}"), "at most 80 letters, digits, '_', '-' and '.'"),
}


@dataclass(frozen=True, slots=True)
class OllamaName:
    """The full name of an Ollama model; each part is a safe name for a file.

    Attributes:
        model: Such as `llama3`.
        tag: Such as `8b`.
        namespace: Who it belongs to.
        host: The registry, with its port if it has one.

    Raises:
        InvalidReference: a part breaks the rules.
    """

    model: str
    tag: str = DEFAULT_TAG
    namespace: str = DEFAULT_NAMESPACE
    host: str = DEFAULT_HOST

    def __post_init__(self) -> None:
        for kind, part in zip(_RULES, self.parts, strict=True):
            rule, words = _RULES[kind]
            if not rule.fullmatch(part):
                raise InvalidReference(
                    f"{show(part)} is not valid as the {kind} of an Ollama model",
                    hint=f"use {words}, starting with a letter, digit or '_'",
                )

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Host, namespace, model and tag: the path of the manifest below `manifests/`."""
        return self.host, self.namespace, self.model, self.tag

    @property
    def repository(self) -> str:
        """The repository in a registry: always two components."""
        return f"{self.namespace}/{self.model}"

    @property
    def short(self) -> str:
        """The name as `ollama list` shows it, without the default host and namespace."""
        if self.host != DEFAULT_HOST:
            return str(self)
        return f"{self.model if self.namespace == DEFAULT_NAMESPACE else self.repository}:{self.tag}"

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


def parse_ollama_name(text: str) -> OllamaName:
    """Parse the name of a model in a local store.

    Example:
        >>> str(parse_ollama_name("llama3"))
        'registry.ollama.ai/library/llama3:latest'

    Args:
        text: `[[HOST/]NAMESPACE/]MODEL[:TAG]`.

    Raises:
        InvalidReference: it has more parts than that, or one that breaks the rules.
    """
    *folders, last = text.split("/")
    model, colon, tag = last.partition(":")
    if len(folders) > 2:
        raise InvalidReference(
            f"{show(text)} is no name of an Ollama model: it has more than three parts",
            hint="write [[HOST/]NAMESPACE/]MODEL[:TAG]",
        )
    namespace = folders.pop() if folders else DEFAULT_NAMESPACE
    host = folders.pop() if folders else DEFAULT_HOST
    return OllamaName(model, tag if colon else DEFAULT_TAG, namespace, host)


def parse_ollama_url(text: str) -> OllamaName:
    """Parse the name of a model in a registry that speaks Ollama's dialect.

    Args:
        text: `ollama://HOST/NAMESPACE/MODEL[:TAG]`.

    Raises:
        InvalidReference: it is not of that form, or a part breaks the rules.
    """
    rest = text.removeprefix(SCHEME)
    if rest == text or rest.count("/") != 2:
        raise InvalidReference(
            f"{show(text)} names no model in an Ollama registry",
            hint=f"write {SCHEME}HOST/NAMESPACE/MODEL[:TAG], such as {SCHEME}{DEFAULT_HOST}/library/llama3:8b",
        )
    return parse_ollama_name(rest)

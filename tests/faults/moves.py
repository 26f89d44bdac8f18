# SPDX-License-Identifier: Apache-2.0
"""A model on its way there and back, and what must hold whatever happens to it."""

from __future__ import annotations

import hashlib
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.operations.reports import PullReport, PushReport
from ocibridge.stores.registry import RegistryOptions, Retry
from ocibridge.stores.registry.options import Timeouts

from ..formats.build import carton
from .quirks import Registry
from .tokens import SECRET

NAME = "models/digits"
WEIGHT = "model/weights.bin"
OPTIONS = RegistryOptions(
    plain_http=True,
    retries=Retry(attempts=4, first=0.01, longest=0.05, longest_retry_after=5.0),
    timeouts=Timeouts(connect=5.0, read=1.5, commit=1.5, write=1.5, rate=256, window=60.0),
)


def weight(size: int) -> bytes:
    return hashlib.shake_128(b"weight").digest(size)


def make_model(path: Path, size: int = 1_100_000) -> Path:
    """A carton with one weight of `size` bytes, and small files."""
    return carton(path, {WEIGHT: weight(size), "model/config.json": b'{"layers": 2}\n', "model/vocab.txt": b"a\nb\n"})


def one_sentence(exc: ocibridge.OcibridgeError) -> str:
    """The text of an error, which is one sentence and a next step, without secrets."""
    assert exc.hint, f"no hint: {exc.message}"
    text = str(exc)
    assert text.isprintable()
    assert len(text) < 600
    assert not re.search(r"\.$|\. [A-Z]|Traceback|httpx|httpcore", text)
    for secret in (SECRET, "s3cr3t", "Bearer t"):
        assert secret not in text + repr(exc)
    return text


@dataclass
class Moves:
    """Pushes and pulls of one model.

    Attributes:
        model: The carton.
        folder: Where pulls go.
        options: How registries are talked to.
        tag: Tag in the registry.
    """

    model: Path
    folder: Path
    options: RegistryOptions = OPTIONS
    tag: str = "v1"
    name: str = NAME

    def place(self, host: str) -> str:
        return f"{host}/{self.name}:{self.tag}"

    def push(self, host: str, **more: Any) -> PushReport:
        options = replace(self.options, **more.pop("options", {}))
        return ocibridge.push(self.model, self.place(host), ocibridge.PushOptions(**more), registry=options)

    def pull(self, host: str, **more: Any) -> PullReport:
        """Pull, and compare every byte that arrived with what was pushed."""
        dest = self.folder / "back.carton"
        options = replace(self.options, **more.pop("options", {}))
        report = ocibridge.pull(self.place(host), dest, ocibridge.PullOptions(force=True, **more), registry=options)
        self._right(dest, report)
        return report

    def _right(self, dest: Path, report: PullReport) -> None:
        """Whether every byte is there; then remove it."""
        assert report.identity == ocibridge.inspect(self.model).identity
        with zipfile.ZipFile(self.model) as mine, zipfile.ZipFile(dest) as back:
            assert sorted(mine.namelist()) == sorted(back.namelist())
            assert all(mine.read(name) == back.read(name) for name in mine.namelist())
        dest.unlink()

    def push_fails(self, host: str, words: str, kind: type[Exception] = ocibridge.StoreError, **more: Any) -> Exception:
        """A push that ends in one sentence; whoever calls looks for tags."""
        with pytest.raises(kind, match=words) as caught:
            self.push(host, **more)
        assert isinstance(caught.value, ocibridge.OcibridgeError)
        one_sentence(caught.value)
        return caught.value

    def pull_fails(self, host: str, words: str, kind: type[Exception] = ocibridge.StoreError, **more: Any) -> Exception:
        """A pull that ends in one sentence and leaves nothing under the final name, as archive and as folder."""
        options = replace(self.options, **more.pop("options", {}))
        for name in ("back.carton", "back"):
            dest = self.folder / name
            with pytest.raises(kind, match=words) as caught:
                ocibridge.pull(self.place(host), dest, ocibridge.PullOptions(**more), registry=options)
            assert isinstance(caught.value, ocibridge.OcibridgeError)
            one_sentence(caught.value)
            assert not dest.exists()
        return caught.value

    def try_push(self, host: str, clean: str) -> bool:
        """Push over a bad line: right, or one sentence and no tag. The clean line to the same registry tells."""
        try:
            self.push(host)
        except ocibridge.OcibridgeError as exc:
            one_sentence(exc)
            with pytest.raises(ocibridge.NotFound):
                ocibridge.pull(self.place(clean), self.folder / "none.carton", registry=self.options)
            assert not (self.folder / "none.carton").exists()
            return False
        self.pull(clean)
        return True

    def try_pull(self, host: str) -> bool:
        """Pull over a bad line: right, or one sentence and no file."""
        dest = self.folder / "tried.carton"
        try:
            report = ocibridge.pull(self.place(host), dest, registry=self.options)
        except ocibridge.OcibridgeError as exc:
            one_sentence(exc)
            assert not dest.exists()
            return False
        self._right(dest, report)
        return True


def blob_path(registry: Registry) -> str:
    """The path of the blob that has the weight, once it was pushed."""
    name, digest = max(registry.blobs, key=lambda key: len(registry.blobs[key]))
    return f"/v2/{name}/blobs/{digest}$"


def no_leak(*servers: Any) -> None:
    """No request that any of these hosts has seen contains credentials or cookies."""
    for server in servers:
        for seen in server.seen:
            assert seen.authorization is None, f"{seen.method} {seen.path}"
            assert "cookie" not in seen.headers
            assert SECRET not in seen.path + str(seen.headers)

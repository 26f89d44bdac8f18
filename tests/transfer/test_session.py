# SPDX-License-Identifier: Apache-2.0
"""What copies of one run must not do at the same time, and what they find at the target from an earlier one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, canonical_json
from ocibridge.settings import CONCURRENCY
from ocibridge.stores.base import Store
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryStore
from ocibridge.transfer.copygraph import GraphCopier, GraphOptions
from ocibridge.transfer.engine import CopyEngine
from ocibridge.transfer.session import CopySession

from ..stores.samples import sample

CONFIG = "application/vnd.oci.empty.v1+json"


def _short(descriptor: Descriptor) -> dict[str, object]:
    return {"mediaType": descriptor.media_type, "digest": descriptor.digest, "size": descriptor.size}


def _child(store: Store, architecture: str) -> Descriptor:
    data = architecture.encode()
    config = Descriptor.of(data, CONFIG)
    store.push_blob(config, BytesContent(data))
    document = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_MANIFEST, "config": _short(config), "layers": []}
    return store.push_manifest(canonical_json(document), MEDIA_TYPE_MANIFEST, None)


def test_other_platforms_of_an_index_that_is_there_are_brought(tmp_path: Path) -> None:
    with LayoutStore(tmp_path / "a", create=True) as source, LayoutStore(tmp_path / "b", create=True) as target:
        children = {name: _child(source, name) for name in ("amd64", "arm64")}
        listed = [
            {**_short(child), "platform": {"os": "linux", "architecture": name}} for name, child in children.items()
        ]
        index = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": listed}
        source.push_manifest(canonical_json(index), MEDIA_TYPE_INDEX, "v1")
        GraphCopier(source, target, GraphOptions(platforms=("linux/amd64",))).copy("v1", "v1")
        assert [target.head(child.digest) is not None for child in children.values()] == [True, False]
        GraphCopier(source, target, GraphOptions()).copy("v1", "v1")
        assert all(target.head(child.digest) for child in children.values())


def test_the_same_manifest_and_the_same_list_of_referrers_are_written_by_one_at_a_time(tmp_path: Path) -> None:
    session, busy, clashes, pushed = CopySession(), threading.Lock(), [], []

    def work(digest: str) -> None:
        if not busy.acquire(blocking=False):
            clashes.append(digest)
            return
        pushed.append(digest)
        threading.Event().wait(0.01)
        busy.release()

    with LayoutStore(tmp_path / "a", create=True) as target, ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: session.push(
                    target, f"sha256:{number % 4}", "sha256:subject", None, lambda: work(str(number % 4))
                ),
                range(16),
            )
        )
    assert (clashes, sorted(pushed)) == ([], ["0", "1", "2", "3"])


def test_many_roots_at_once_have_few_threads_each(
    source: RegistryStore, target: RegistryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large blobs of many tags would otherwise ask a host for dozens of connections."""
    roots, blobs, lock = 6, 6, threading.Lock()
    for number in range(roots):
        sample(*(b"%d %d" % (number, blob) * 100_000 for blob in range(blobs))).push(source, f"v{number}")
    all_at_work, busy, most = threading.Barrier(roots), 0, 0
    threads = CopyEngine._threads

    def counted(engine: CopyEngine, blobs: int, size: int) -> int:
        all_at_work.wait(30)
        return threads(engine, blobs, size)

    def move(engine: CopyEngine, *_: object) -> str:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.05)
        with lock:
            busy -= 1
        return "present"

    monkeypatch.setattr(CopyEngine, "_threads", counted)
    monkeypatch.setattr(CopyEngine, "_plan_blob", move)
    session = CopySession()
    with ThreadPoolExecutor(roots) as pool:
        jobs = [pool.submit(GraphCopier(source, target, GraphOptions(), session).plan, f"v{n}") for n in range(roots)]
        assert all(job.result().present == blobs + 1 for job in jobs)
    assert most <= 2 * CONCURRENCY

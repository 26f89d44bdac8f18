# SPDX-License-Identifier: Apache-2.0
"""Requests to one repository, and responses that are not quite what was asked for."""

from __future__ import annotations

import pytest

from ocibridge.errors import AuthenticationError, StoreError
from ocibridge.oci import MEDIA_TYPE_INDEX, Descriptor, Index
from ocibridge.stores.registry import RegistryStore

from .conftest import MakeStore
from .fault_server import FaultServer, Reply, Seen

DATA = b"some bytes of a blob"
BLOB = Descriptor.of(DATA, "application/octet-stream")
PATH = f"/v2/r/blobs/{BLOB.digest}"
REFERRERS = f"/v2/r/referrers/{BLOB.digest}"
FALLBACK = f"/v2/r/manifests/{BLOB.digest.replace(':', '-')}"
INDEX = {"Content-Type": MEDIA_TYPE_INDEX}


@pytest.mark.parametrize(
    ("reply", "there"),
    [
        (Reply(206, DATA[:1], {"Content-Range": f"bytes 0-0/{len(DATA)}"}), True),
        (Reply(206, DATA[:1], {"Content-Range": "bytes 0-0/7"}), False),
        (Reply(200, DATA), True),
        (Reply(200, DATA[1:]), False),
        (Reply(403), False),
        (Reply(404), False),
        (Reply(0), False),
    ],
)
def test_storage_that_is_signed_for_get_alone(
    reply: Reply, there: bool, server: FaultServer, other: FaultServer, store: RegistryStore
) -> None:
    """HEAD is redirected to an address that refuses HEAD; the first byte tells."""
    away = Reply(307, headers={"Location": f"{other.url}/x?sig=s"})
    server.on("HEAD", PATH, away)
    server.on("GET", PATH, away)
    other.on("HEAD", "/x", Reply(403))
    other.on("GET", "/x", reply)
    assert store.has_blob(BLOB) is there
    assert other.seen[-1].headers["range"] == "bytes=0-0"


@pytest.mark.parametrize("status", [303, 400, 404, 405, 501, 503])
def test_no_referrers_api_is_the_fallback_tag(status: int, server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", REFERRERS, Reply(status))
    server.on("GET", FALLBACK, Reply(200, Index(manifests=[BLOB]).to_json(), INDEX))
    assert list(store.referrers(BLOB.digest)) == [BLOB]


@pytest.mark.parametrize("status", [401, 403])
def test_forbidden_is_not_absent(status: int, server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", REFERRERS, Reply(status))
    with pytest.raises(AuthenticationError, match="listing the referrers"):
        store.referrers(BLOB.digest)
    assert not server.requests("GET", FALLBACK)


def test_a_second_page_that_fails_does_not_lose_the_first(server: FaultServer, store: RegistryStore) -> None:
    def page(seen: Seen) -> Reply:
        if "page=2" in seen.path:
            return Reply(404)
        link = {"Link": f'<{REFERRERS}?page=2>; rel="next"'}
        return Reply(200, Index(manifests=[BLOB]).to_json(), {**INDEX, **link})

    server.on("GET", REFERRERS, page)
    with pytest.raises(StoreError, match="listing the referrers"):
        store.referrers(BLOB.digest)


@pytest.mark.parametrize("link", ["http://[x/", "file:///etc/passwd"])
def test_pages_that_lead_nowhere(link: str, server: FaultServer, store: RegistryStore) -> None:
    following = {"Link": f'<{link}>; rel="next"'}
    server.on("GET", REFERRERS, Reply(200, Index(manifests=[BLOB]).to_json(), {**INDEX, **following}))
    server.on("GET", "/v2/r/tags/list", Reply(200, b'{"tags":["a"]}', following))
    for ask in (lambda: store.referrers(BLOB.digest), store.tags):
        with pytest.raises(StoreError, match="address"):
            ask()


@pytest.mark.parametrize("location", ["http://[x/", "file:///etc/passwd", ""])
def test_a_mount_with_an_address_that_is_none(location: str, server: FaultServer, make_store: MakeStore) -> None:
    server.on("POST", "/v2/r/blobs/uploads/", Reply(202, headers={"Location": location}))
    assert not make_store().mount_blob(BLOB, make_store("other/repo"))
    assert not server.requests("DELETE")

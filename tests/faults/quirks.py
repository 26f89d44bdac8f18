# SPDX-License-Identifier: Apache-2.0
"""A small registry in memory, and what the registries of this world do differently from it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import replace
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ocibridge.settings import MiB

from ..stores.registry.fault_server import Reply, Seen
from .server import Server

PATH = re.compile(r"/v2/(?P<name>.+?)/(?P<what>blobs/uploads|blobs|manifests|tags|referrers)/(?P<rest>[^/]*)")
_INDEX = "application/vnd.oci.image.index.v1+json"


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def error(status: int, code: str, message: str = "no") -> Reply:
    body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    return Reply(status, body, {"Content-Type": "application/json"})


def ranged(seen: Seen, data: bytes, headers: dict[str, str]) -> Reply:
    """A blob, or the range of it that was asked for."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", seen.headers.get("range", ""))
    if not match:
        return Reply(200, data, headers)
    start, end = int(match[1]), min(int(match[2] or len(data)), len(data) - 1)
    if start >= len(data):
        return Reply(416)
    return Reply(206, data[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{len(data)}"})


class Registry(Server):
    """A registry as the distribution specification wants it, open to everybody.

    Attributes:
        blobs: Bytes by repository and digest.
        manifests: Bytes and media type by repository and digest.
        tags: Digests by repository and tag.
        uploads: Bytes of the open uploads, by their names.
    """

    announces_digests = True
    keeps_interrupted = False
    checks_order = True
    has_referrers = True

    def __init__(self, name: str = "127.0.0.1") -> None:
        super().__init__(name)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.tags: dict[tuple[str, str], str] = {}
        self.uploads: dict[str, bytearray] = {}
        self._numbers = itertools.count()

    def reply(self, seen: Seen) -> Reply:
        path, _, query = seen.path.partition("?")
        if path == "/v2/":
            return Reply(200, b"{}")
        match = PATH.fullmatch(path)
        if not match:
            return error(404, "UNSUPPORTED")
        name, what, rest = match["name"], match["what"], unquote(match["rest"])
        asked = {key: values[0] for key, values in parse_qs(query).items()}
        if what == "blobs/uploads":
            return self.upload(seen, name, rest, asked)
        if what == "blobs":
            return self.blob(seen, name, rest)
        if what == "manifests":
            return self.put_manifest(seen, name, rest) if seen.method == "PUT" else self.manifest(seen, name, rest)
        if what == "tags":
            return self.list_tags(name)
        return self.referrers(seen, name, rest)

    # Uploads.

    def upload(self, seen: Seen, name: str, session: str, asked: dict[str, str]) -> Reply:
        if seen.method == "POST":
            return self.start(seen, name, asked)
        if session not in self.uploads:
            return error(404, "BLOB_UPLOAD_UNKNOWN")
        if seen.method == "DELETE":
            del self.uploads[session]
            return Reply(204)
        if seen.method == "GET":
            return self.kept(name, session, 204)
        if seen.method == "PATCH":
            return self.patch(seen, name, session)
        return self.put(seen, name, session, asked.get("digest", ""))

    def start(self, seen: Seen, name: str, asked: dict[str, str]) -> Reply:
        mounted = self.blobs.get((asked.get("from", ""), asked.get("mount", "")))
        if mounted is not None:
            self.blobs[name, asked["mount"]] = mounted
            return Reply(201, headers=self.about(asked["mount"]))
        session = f"s{next(self._numbers)}"
        self.uploads[session] = bytearray()
        return Reply(202, headers={"Location": self.location(name, session), "Range": "0-0"})

    def location(self, name: str, session: str) -> str:
        return f"/v2/{name}/blobs/uploads/{session}?_state={quote('a+b/=', safe='')}"

    def kept(self, name: str, session: str, status: int) -> Reply:
        end = max(0, len(self.uploads[session]) - 1)
        return Reply(status, headers={"Location": self.location(name, session), "Range": f"0-{end}"})

    def patch(self, seen: Seen, name: str, session: str) -> Reply:
        data = self.uploads[session]
        sent = seen.headers.get("content-range")
        if sent and self.checks_order and int(sent.partition("-")[0]) != len(data):
            return replace(self.kept(name, session, 416), length=True)
        data += seen.body
        return self.kept(name, session, 202)

    def put(self, seen: Seen, name: str, session: str, digest: str) -> Reply:
        data = bytes(self.uploads[session] + seen.body)
        if sha256(data) != digest:
            return error(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
        del self.uploads[session]
        self.blobs[name, digest] = data
        return Reply(201, headers={**self.about(digest), "Location": f"/v2/{name}/blobs/{digest}"})

    def interrupted(self, seen: Seen) -> None:
        session = urlsplit(seen.path).path.rpartition("/")[2]
        if session not in self.uploads:
            return
        if self.keeps_interrupted:
            self.uploads[session] += seen.body
        else:
            del self.uploads[session]

    # What is there.

    def about(self, digest: str) -> dict[str, str]:
        return {"Docker-Content-Digest": digest} if self.announces_digests else {}

    def blob(self, seen: Seen, name: str, digest: str) -> Reply:
        data = self.blobs.get((name, digest))
        if data is None:
            return error(404, "BLOB_UNKNOWN")
        return ranged(seen, data, {"Content-Type": "application/octet-stream", **self.about(digest)})

    def manifest(self, seen: Seen, name: str, version: str) -> Reply:
        digest = self.tags.get((name, version), version)
        found = self.manifests.get((name, digest))
        if found is None:
            return error(404, "MANIFEST_UNKNOWN")
        return Reply(200, found[0], {"Content-Type": found[1], **self.about(digest)})

    def put_manifest(self, seen: Seen, name: str, version: str) -> Reply:
        document = json.loads(seen.body)
        parts = [*document.get("layers", []), *([document["config"]] if "config" in document else [])]
        if any((name, part["digest"]) not in self.blobs for part in parts):
            return error(400, "MANIFEST_BLOB_UNKNOWN")
        digest = sha256(seen.body)
        self.manifests[name, digest] = (seen.body, seen.headers.get("content-type", ""))
        if version != digest:
            self.tags[name, version] = digest
        subject = {"OCI-Subject": document["subject"]["digest"]} if "subject" in document and self.has_referrers else {}
        return Reply(201, headers={**self.about(digest), **subject})

    def list_tags(self, name: str) -> Reply:
        if not any(known == name for known, _ in self.manifests):
            return error(404, "NAME_UNKNOWN")
        tags = sorted(tag for known, tag in self.tags if known == name)
        return Reply(200, json.dumps({"name": name, "tags": tags}).encode(), {"Content-Type": "application/json"})

    def referrers(self, seen: Seen, name: str, digest: str) -> Reply:
        if not self.has_referrers:
            return Reply(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})
        entries = [
            {"mediaType": kind, "digest": own, "size": len(data)}
            for (known, own), (data, kind) in self.manifests.items()
            if known == name and json.loads(data).get("subject", {}).get("digest") == digest
        ]
        body = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": entries}).encode()
        return Reply(200, body, {"Content-Type": _INDEX})


class Distribution2(Registry):
    """distribution 2.8: appends whatever comes, loses a cut session, asks for Accept, knows no referrers."""

    checks_order = False
    has_referrers = False

    def manifest(self, seen: Seen, name: str, version: str) -> Reply:
        found = super().manifest(seen, name, version)
        kind = found.headers.get("Content-Type", "")
        return (
            found if found.status != 200 or kind in seen.headers.get("accept", "") else error(404, "MANIFEST_UNKNOWN")
        )

    def put_manifest(self, seen: Seen, name: str, version: str) -> Reply:
        return error(400, "MANIFEST_INVALID") if len(seen.body) > 4 * MiB else super().put_manifest(seen, name, version)


class Distribution3(Registry):
    """distribution 3: 416 for what is out of order, and keeps what came before a cut."""

    keeps_interrupted = True
    has_referrers = False


class Zot(Registry):
    """zot: no bodies of unknown length, a least chunk, referrers, media types without parameters."""

    least = 300_000

    def start(self, seen: Seen, name: str, asked: dict[str, str]) -> Reply:
        started = super().start(seen, name, asked)
        return replace(started, headers={**started.headers, "OCI-Chunk-Min-Length": str(self.least)})

    def put(self, seen: Seen, name: str, session: str, digest: str) -> Reply:
        if "transfer-encoding" in seen.headers:
            return error(400, "BLOB_UPLOAD_INVALID")
        return super().put(seen, name, session, digest)

    def put_manifest(self, seen: Seen, name: str, version: str) -> Reply:
        if ";" in seen.headers.get("content-type", ""):
            return error(400, "MANIFEST_INVALID")
        return super().put_manifest(seen, name, version)


class Harbor(Distribution2):
    """distribution 2.8 behind an nginx that takes short requests only, sets cookies, and now and then gives up."""

    longest = 400_000
    page = b"<html><head><title>413 Request Entity Too Large</title></head></html>"

    def refuse(self, seen: Seen) -> Reply | None:
        if int(seen.headers.get("content-length", "0")) > self.longest:
            return Reply(413, self.page, {"Content-Type": "text/html"})
        return None

    def reply(self, seen: Seen) -> Reply:
        found = super().reply(seen)
        return replace(found, headers={**found.headers, "Set-Cookie": "sid=secret; Path=/; HttpOnly"})


class Storage(Server):
    """Where other registries keep their blobs: an address with a signature, and no other credentials beside it."""

    def __init__(self, registry: Registry, name: str = "localhost") -> None:
        super().__init__(name)
        self.registry = registry

    def address(self, name: str, digest: str) -> str:
        return f"{self.url}/{name}/{digest}?X-Signature=s3cr3t"

    def reply(self, seen: Seen) -> Reply:
        if "authorization" in seen.headers:
            return Reply(400, b"<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism</Message></Error>")
        path, _, query = seen.path.partition("?")
        name, _, digest = path.strip("/").rpartition("/")
        if "X-Signature=s3cr3t" not in query:
            return Reply(403)
        if seen.method == "PUT":
            return self.registry.put(seen, name, digest, parse_qs(query).get("digest", [""])[0])
        if seen.method == "DELETE":
            return Reply(204 if self.registry.uploads.pop(digest, None) is not None else 404)
        data = self.registry.blobs.get((name, digest))
        if data is None or seen.method == "HEAD":
            return Reply(403)
        return ranged(seen, data, {"Content-Type": "binary/octet-stream"})


class Redirecting(Registry):
    """A registry that sends whoever wants a blob to a `Storage`."""

    storage: Storage | None = None

    def blob(self, seen: Seen, name: str, digest: str) -> Reply:
        if self.storage is None or (name, digest) not in self.blobs:
            return super().blob(seen, name, digest)
        return Reply(307, b"moved", {"Location": self.storage.address(name, digest)})


class Ghcr(Redirecting):
    """GHCR: no PATCH above 4 MiB, and referrers that lead to a page which answers 429."""

    def patch(self, seen: Seen, name: str, session: str) -> Reply:
        return Reply(416) if len(seen.body) > 4 * MiB else super().patch(seen, name, session)

    def referrers(self, seen: Seen, name: str, digest: str) -> Reply:
        return Reply(303, headers={"Location": "/limit"})

    def reply(self, seen: Seen) -> Reply:
        return Reply(429, headers={"Retry-After": "3600"}) if seen.path == "/limit" else super().reply(seen)


class Ecr(Redirecting):
    """ECR: 201 for a chunk, with the range of the first for ever; 416 for a chunk that starts anew."""

    def __init__(self, name: str = "127.0.0.1") -> None:
        super().__init__(name)
        self._first: dict[str, int] = {}

    def patch(self, seen: Seen, name: str, session: str) -> Reply:
        found = super().patch(seen, name, session)
        if found.status != 202:
            return found
        first = self._first.setdefault(session, len(self.uploads[session]))
        return Reply(201, headers={**found.headers, "Range": f"0-{max(0, first - 1)}"})


class GoogleAr(Registry):
    """Google Artifact Registry: one PUT, no chunks."""

    def patch(self, seen: Seen, name: str, session: str) -> Reply:
        return error(405, "UNSUPPORTED", "chunked uploads are not supported")


class Quay(Registry):
    """Quay: chunks are taken, and lost."""

    def patch(self, seen: Seen, name: str, session: str) -> Reply:
        end = max(0, len(seen.body) - 1)
        return Reply(202, headers={"Location": self.location(name, session), "Range": f"0-{end}"})


class Gitlab(Registry):
    """GitLab: no referrers, and Locations that are whole addresses."""

    has_referrers = False

    def location(self, name: str, session: str) -> str:
        return f"{self.url}{super().location(name, session)}"


class Acr(Redirecting):
    """Azure: redirects for blobs, and Locations relative to the request."""

    def location(self, name: str, session: str) -> str:
        return f"../uploads/{session}?_nouploadcache=false"


class Silent(Redirecting):
    """An old registry that never says Docker-Content-Digest."""

    announces_digests = False
    has_referrers = False


NAMED: tuple[type[Registry], ...] = (
    Registry,
    Distribution2,
    Distribution3,
    Zot,
    Harbor,
    Ghcr,
    Ecr,
    GoogleAr,
    Quay,
    Gitlab,
    Acr,
    Silent,
)

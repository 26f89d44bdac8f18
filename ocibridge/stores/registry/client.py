# SPDX-License-Identifier: Apache-2.0
"""The ORAS client, made to keep its promises: every stock entry point streams, verifies and stays byte-exact.

What it inherits is the control flow (`push`, `pull`, `get_tags`, `delete_tag`, ...); what it overrides is how a request
is sent (`do_request`, through our one seam) and how bytes move.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import oras.container
import oras.provider
import requests

from ...content import FileContent, Reader, chunks, fsync
from ...errors import FormatError, OcibridgeError, StoreError, UsageError, writing
from ...oci import MEDIA_TYPE_MANIFEST, Descriptor, canonical_json, media_type_of, parse_digest, parse_json
from ..base import VerifiedReader
from .auth import repository_scope
from .hosts import Hosts, without_secrets
from .http import Call, Host
from .login import login, logout
from .messages import Reply, say_where
from .options import RegistryOptions, base_url
from .problems import Answer
from .repository import ACCEPTED_MANIFESTS, MAX_PAGES, Repository

# The stock client reports through this logger; without a handler Python would print its errors next to ours.
logging.getLogger("oras").addHandler(logging.NullHandler())


_ENDPOINT = re.compile(r".*?/v2/(.+)/(?:blobs|manifests|tags|referrers)/")


class OrasRegistry(oras.provider.Registry):  # type: ignore[misc]
    """A drop-in `oras.provider.Registry`.

    Example:
        >>> OrasRegistry("localhost:5000").get_tags("localhost:5000/models/digits")  # doctest: +SKIP
        ['v1']

    Args:
        hostname: Registry host with its port; credentials in `options` are for this host only.
        options: See `RegistryOptions`.
        hosts: Connections to share; None makes its own.

    Every method raises an `OcibridgeError` where the stock client raises `ValueError` or lets `requests` errors pass.
    """

    def __init__(
        self, hostname: str | None = None, options: RegistryOptions | None = None, hosts: Hosts | None = None
    ) -> None:
        self._options = options or RegistryOptions()
        self._hosts = hosts or Hosts()
        self._owns_hosts = hosts is None
        super().__init__(hostname=hostname)
        self.auth = _NoAuth(self)
        if hostname:
            self.prefix = self.host(hostname).origin.scheme

    def host(self, name: str) -> Host:
        """The `Host` of a registry name."""
        return self._hosts.get(name, self._options if name == self.hostname else without_secrets(self._options))

    def repository(self, container: Any) -> Repository:
        """The `Repository` that a container or its name means."""
        container = self.get_container(container)
        return Repository(self.host(container.registry), container.api_prefix)

    def close(self) -> None:
        """Give back connections."""
        self.session.close()
        if self._owns_hosts:
            self._hosts.close()

    @staticmethod
    def container(host: str, repository: str) -> oras.container.Container:
        """The stock client's form of a repository; its own parser takes `localhost/x` for one on Docker Hub."""
        made = oras.container.Container(repository, registry=host)
        made.registry, made.namespace, made.repository = host, None, repository
        return made

    # Requests.

    def _registry_of(self, url: httpx.URL) -> str:
        name = url.netloc.decode().lower()
        own = self.hostname
        address = httpx.URL(base_url(own, None)).netloc.decode().lower() if own else None
        return own if own and name in (own.lower(), address) else name

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: Any = None,
        headers: dict[str, str] | None = None,
        json: Any = None,
        stream: bool = False,
    ) -> requests.Response:
        """Send a request through our connections; the answer in the form that the stock client expects."""
        parsed = httpx.URL(url)
        host = self.host(self._registry_of(parsed))
        if json is not None:
            data = canonical_json(json)
            headers = {"Content-Type": "application/json", **(headers or {})}
        if isinstance(data, dict):
            raise UsageError("forms are not sent to a registry")
        repository = _repository_of(parsed.path)
        actions = "pull" if method in ("GET", "HEAD") else "delete,pull" if method == "DELETE" else "pull,push"
        call = Call(
            method,
            str(host.origin.copy_with(raw_path=parsed.raw_path)),
            f"{method} {parsed.path}",
            f"{host.name}/{repository}" if repository else host.name,
            repository_scope(repository, actions) if repository else (),
            {key: value for key, value in (headers or {}).items() if key.lower() != "authorization"},
            data or None,
        )
        if not stream:
            return _as_requests(host.request(call, accept=None), call)
        try:
            reply = host.open(call)
        except httpx.HTTPError as exc:
            raise host.error(call, exc) from exc
        answer = Answer(reply.status, reply.headers, b"", reply.request.where)
        return _as_requests(answer, call, _RawReader(reply, host, call))

    def _check_200_response(self, response: requests.Response) -> None:
        if response.status_code not in (200, 201, 202):
            url = httpx.URL(response.url)
            headers = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(response.status_code, headers, response.content, str(url))
            host = self.host(self._registry_of(url))
            repository = _repository_of(url.path)
            owner = f"{host.name}/{repository}" if repository else host.name
            raise host.error(Call("GET", str(url), f"the request for {url.path}", owner), answer)

    def _do_paginated_request(self, url: str, callable: Callable[[requests.Response], Any]) -> None:
        """Walk the pages of a listing, which stay on its host and come to an end ("Listing Tags")."""
        first = httpx.URL(url)
        seen: set[str] = set()
        while url not in seen and len(seen) < MAX_PAGES:
            seen.add(url)
            response = self.do_request(url)
            self._check_200_response(response)
            try:
                more = callable(response)
            except (ValueError, AttributeError, TypeError):
                raise StoreError(
                    f"{first.netloc.decode()}: the listing that the registry gave is not valid",
                    hint="the registry does not follow the distribution specification; ask its administrator",
                ) from None
            link = response.links.get("next", {}).get("url")
            if not (more and link):
                return
            host = self.host(self._registry_of(first))
            following = host.url(link, Call("GET", url, "reading a listing", host.name), httpx.URL(response.url))
            if self._registry_of(following) != self._registry_of(first):
                raise StoreError(
                    f"{first.netloc.decode()}: the next page of a listing is on another host",
                    hint="the registry, or a proxy before it, is not set up safely; ask its administrator",
                )
            url = str(following)

    # Blobs.

    def upload_blob(
        self, blob: str, container: Any, layer: dict[str, Any], do_chunked: bool = False, chunk_size: int = 0
    ) -> requests.Response:
        """Upload a file as the blob that `layer` describes, unless the registry has it."""
        if self.repository(container).has_blob(_descriptor(layer)):
            return _made(200)
        return self._upload(blob, container, layer, chunk_size if do_chunked and chunk_size > 0 else None)

    def put_upload(self, blob: str, container: Any, layer: dict[str, Any]) -> requests.Response:
        """Upload a file as the blob that `layer` describes."""
        return self._upload(blob, container, layer, None)

    def chunked_upload(
        self, blob: str, container: Any, layer: dict[str, Any], chunk_size: int = 16 << 20
    ) -> requests.Response:
        """Upload a file in chunks of `chunk_size` bytes."""
        return self._upload(blob, container, layer, chunk_size)

    def _upload(self, blob: str, container: Any, layer: dict[str, Any], chunk: int | None) -> requests.Response:
        self.repository(container).push_blob(_descriptor(layer), FileContent(blob), chunk=chunk)
        return _made(201)

    def download_blob(self, container: Any, digest: str, outfile: str) -> str:
        """Download a blob into a file, which gets its name only when size and digest are right.

        Raises:
            IntegrityError: the registry gave other bytes.
            DestinationError: the file cannot be written.
        """
        repository = self.repository(container)
        parse_digest(digest, repository.owner)
        head = repository.host.request(repository.call("HEAD", f"blobs/{digest}", f"looking for the blob {digest}"))
        length = head.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            raise StoreError(f"{repository.owner}: the registry does not tell the size of the blob {digest}")
        descriptor = Descriptor(media_type="application/octet-stream", digest=digest, size=int(length))
        target = Path(outfile)
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".part.", dir=target.parent)
        try:
            with open(handle, "wb", buffering=0) as file:
                with VerifiedReader(repository.open_blob(descriptor), descriptor, repository.owner) as reader:
                    _copy(reader, file, target)
            with writing(target):
                Path(part).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(part).unlink()
            raise
        return outfile

    # Manifests.

    def get_manifest_bytes(
        self, container: Any, allowed_media_type: list[str] | None = None
    ) -> tuple[bytes, str | None]:
        """A manifest or index byte for byte, checked against the digest asked for, and its announced media type."""
        container = self.get_container(container)
        accept = tuple(allowed_media_type or ACCEPTED_MANIFESTS)
        return self.repository(container).get_manifest(container.digest or container.tag, accept)

    def get_manifest(
        self,
        container: Any,
        allowed_media_type: list[str] | None = None,
        validation_schema: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A manifest or index as a dictionary, from verified bytes."""
        data, _ = self.get_manifest_bytes(container, allowed_media_type)
        document = parse_json(data, f"the manifest {container}", self._options.limits.manifest)
        if not isinstance(document, dict):
            raise FormatError(f"the manifest {container} is not a JSON object")
        if validation_schema:
            import jsonschema  # comes with oras

            try:
                jsonschema.validate(document, schema=validation_schema)
            except jsonschema.ValidationError as exc:
                raise FormatError(f"the manifest {container} does not follow its schema ({exc.message})") from None
        return document

    def upload_manifest(self, manifest: dict[str, Any] | bytes, container: Any) -> requests.Response:
        """Upload a manifest or index: bytes as they are, a dictionary as compact JSON; under its own media type."""
        container = self.get_container(container)
        data = manifest if isinstance(manifest, bytes) else canonical_json(manifest)
        document = parse_json(data, "the manifest", self._options.limits.manifest)
        if not isinstance(document, dict):
            raise FormatError("the manifest is not a JSON object")
        media_type = media_type_of(document) or MEDIA_TYPE_MANIFEST
        answer = self.repository(container).put_manifest(data, media_type, container.digest or container.tag)
        response = _made(201)
        response.headers.update(answer.headers)
        return response

    # Credentials.

    def login(
        self,
        username: str,
        password: str,
        password_stdin: bool = False,
        tls_verify: bool = True,
        hostname: str | None = None,
        config_path: str | None = None,
    ) -> dict[str, str]:
        """Prove a login against the registry and store it."""
        if password_stdin:
            password = sys.stdin.readline().rstrip("\r\n")
        name = hostname or self.hostname
        if not name:
            raise UsageError("a login needs a registry host")
        options = replace(self._options, insecure=self._options.insecure or not tls_verify)
        where = login(name, username, password, self._with_config(options, config_path))
        return {"Status": "Login Succeeded", "Stored": where}

    def logout(self, hostname: str) -> None:
        """Forget the stored login of a host."""
        logout(hostname, self._options)

    @staticmethod
    def _with_config(options: RegistryOptions, path: str | None) -> RegistryOptions:
        return replace(options, registry_config=Path(path)) if path else options


class _NoAuth:
    """Stands where the stock client keeps its token; ours are kept per host, repository and actions."""

    token = None

    def __init__(self, owner: OrasRegistry) -> None:
        self._owner = owner

    def load_configs(self, container: Any, configs: list[str] | None = None) -> None:
        if configs:
            self._owner._options = self._owner._with_config(self._owner._options, configs[0])

    def set_basic_auth(self, username: str, password: str) -> None:
        self._owner._options = replace(self._owner._options, username=username, password=password)


class _RawReader:
    """What `requests` reads a streamed body from."""

    def __init__(self, reply: Reply, host: Host, call: Call) -> None:
        self._reply = reply
        self._host, self._call = host, call
        self._pieces = iter(reply.body)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        try:
            while size < 0 or not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    # Whoever has read everything need not close it as well.
                    self._reply.close()
                    break
                self._rest += piece
        except httpx.HTTPError as exc:
            say_where(exc, self._reply.request)
            raise self._host.error(self._call, exc) from exc
        end = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:end], self._rest[end:]
        return data

    def close(self) -> None:
        self._reply.close()

    release_conn = close


def _as_requests(answer: Answer, call: Call, raw: _RawReader | None = None) -> requests.Response:
    response = _made(answer.status)
    response.headers.update(answer.headers)
    response.url = answer.where
    response.request = requests.Request(call.method, str(answer.url.copy_with(query=None))).prepare()
    if raw is None:
        response._content = answer.body
    else:
        response._content = False
        response._content_consumed = False
        response.raw = raw
    return response


def _made(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.reason = httpx.codes.get_reason_phrase(status)
    response._content = b""
    return response


def _copy(reader: Reader, file: io.FileIO, target: Path) -> None:
    for view in chunks(reader):
        with writing(target):
            while view:
                view = view[file.write(view) :]
    with writing(target):
        fsync(file)


def _descriptor(layer: dict[str, Any]) -> Descriptor:
    try:
        return Descriptor(
            media_type=str(layer.get("mediaType", "")),
            digest=parse_digest(str(layer["digest"]), "the layer"),
            size=int(layer["size"]),
        )
    except (LookupError, ValueError, OcibridgeError) as exc:
        raise UsageError("a layer needs 'digest' and 'size' to be uploaded") from exc


def _repository_of(path: str) -> str:
    match = _ENDPOINT.match(path)
    return match[1] if match else ""

# SPDX-License-Identifier: Apache-2.0
"""The ORAS client, made to keep its promises: every stock entry point streams, verifies and stays byte-exact.

What it inherits is the control flow (`push`, `pull`, `delete_tags`, ...); the rest is the same code that every command
of this package uses (`DistributionClient`).
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import requests
from oras.container import Container

from ...errors import FormatError, OcibridgeError, StoreError, UsageError, writing
from ...io.atomic import AtomicFile
from ...io.content import FileContent
from ...oci import MEDIA_TYPE_MANIFEST, Descriptor, media_type_of, parse_digest, parse_json
from ..verified import VerifiedReader
from .auth import repository_scope
from .distribution import ACCEPTED_MANIFESTS, DistributionClient
from .hosts import Hosts
from .http import Call, raw_body
from .logins import login, logout
from .options import RegistryOptions

# The stock client reports through this logger; without a handler Python would print its errors next to ours.
logging.getLogger("oras").addHandler(logging.NullHandler())


class RegistryClient(DistributionClient):
    """A drop-in `oras.provider.Registry`, over httpx.

    Example:
        >>> RegistryClient("localhost:5000").get_tags("localhost:5000/models/digits")  # doctest: +SKIP
        ['v1']

    Args:
        hostname: Registry host with its port; credentials in `options` are for this host only.
        insecure: Speak HTTP, as the stock client means it.
        tls_verify: False accepts any certificate; a path names the authorities to trust.
        auth_backend: Taken for the sake of the stock signature: every form of authentication is spoken as asked for.
        options: See `RegistryOptions`; wins over the two before it.
        hosts: What is known of hosts, to share with other clients; whoever made it closes it. None makes its own.

    Every method raises an `OcibridgeError` where the stock client raises `ValueError` or lets `requests` errors pass.
    """

    def __init__(
        self,
        hostname: str | None = None,
        insecure: bool = False,
        tls_verify: bool | str = True,
        auth_backend: str = "token",
        *,
        options: RegistryOptions | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        if options is None:
            options = RegistryOptions(
                plain_http=insecure or None,
                insecure=tls_verify is False,
                ca_file=Path(tls_verify) if isinstance(tls_verify, str) else None,
            )
        super().__init__(hostname, options, hosts)
        self.auth = _Credentials(self)
        self.prefix = self.host(hostname).origin.scheme if hostname else "http" if options.plain_http else "https"

    def get_container(self, name: Container | str) -> Container:
        """A repository by its name; `localhost/x` is one on this machine.

        Raises:
            UsageError: the name is not one of a repository.
        """
        if isinstance(name, Container):
            return name
        try:
            return Container(name, registry=self.hostname)
        except ValueError as exc:
            raise UsageError(str(exc)) from None

    # Requests.

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: Any = None,
        headers: dict[str, str] | None = None,
        json: Any = None,
        stream: bool = False,
    ) -> requests.Response:
        """Send a request to a registry.

        Args:
            url: The address; its host names the registry.
            method: HTTP method.
            data: Body.
            headers: Fields of the request; `Authorization` is ours to say.
            json: Body to be sent as JSON.
            stream: Whether the body of the response is left unread.

        Raises:
            StoreError: the registry could not be reached, or stayed busy.
        """
        parsed = httpx.URL(url)
        container = self._container_of(parsed)
        host = self.host(container.registry)
        if json is not None:
            data, headers = _stock_json(json), {"Content-Type": "application/json", **(headers or {})}
        if isinstance(data, dict):
            raise UsageError("forms are not sent to a registry")
        name = container.repository
        call = Call(
            host,
            method,
            str(host.origin.copy_with(raw_path=parsed.raw_path)),
            f"{method} {parsed.path}",
            f"{host.name}/{name}" if name else host.name,
            repository_scope(name, _ACTIONS.get(method, "pull,push")) if name else (),
            {name: value for name, value in (headers or {}).items() if name.lower() != "authorization"},
            data or None,
        )
        if not stream:
            return _as_requests(self.request(call, accept=None))
        try:
            response = self.open(call)
        except httpx.HTTPError as exc:
            raise self.error(call, exc) from exc
        return _as_requests(response, _ResponseReader(response, lambda exc: self.error(call, exc)))

    def _container_of(self, url: httpx.URL) -> Container:
        """The registry, and the repository if there is one, that an address is about."""
        name, own = url.netloc.decode().lower(), self.hostname
        if own and name in (own.lower(), self.host(own).origin.netloc.decode().lower()):
            name = own
        before, _, path = url.path.partition("/v2/")
        ends = [path.find(f"/{each}/") for each in ("blobs", "manifests", "tags", "referrers")]
        end = min((position for position in ends if position > 0), default=0)
        return self.container(name, path[:end] if not before else "")

    def _check_200_response(self, response: requests.Response) -> None:
        if response.status_code in (200, 201, 202):
            return
        url = httpx.URL(response.url or "")
        container = self._container_of(url)
        call = self.call(container, "GET", str(url), f"the request for {url.path}")
        found = httpx.Response(
            response.status_code,
            content=response.content,
            headers=_headers(response),
            request=httpx.Request("GET", url),
        )
        raise self.error(replace(call, owner=call.owner.rstrip("/")), found)

    def _do_paginated_request(self, url: str, callable: Callable[[requests.Response], Any]) -> None:
        parsed = httpx.URL(url)
        container = self._container_of(parsed)
        origin = self.host(container.registry).origin
        call = self.call(container, "GET", str(origin.copy_with(raw_path=parsed.raw_path)), "reading a listing")
        for response in self.pages(call):
            if not callable(_as_requests(response)):
                return

    # Blobs.

    def blob_exists(self, layer: dict[str, Any], container: Container | str) -> bool:
        """Return whether the registry has the blob that `layer` describes, in its size where it has one."""
        if "size" not in layer:
            return bool(self.get_blob(container, str(layer.get("digest")), head=True).status_code == 200)
        return self.has_blob(self.get_container(container), _descriptor(layer))

    def upload_blob(
        self,
        blob: str,
        container: Container | str,
        layer: dict[str, Any],
        do_chunked: bool = False,
        chunk_size: int = 16 << 20,
    ) -> requests.Response:
        """Upload a file as the blob that `layer` describes, unless the registry has it."""
        if self.blob_exists(layer, container):
            return _made(200)
        return self._upload(blob, container, layer, chunk_size if do_chunked else None)

    def put_upload(self, blob: str, container: Container | str, layer: dict[str, Any]) -> requests.Response:
        """Upload a file as the blob that `layer` describes, in one request."""
        return self._upload(blob, container, layer, None)

    def chunked_upload(
        self, blob: str, container: Container | str, layer: dict[str, Any], chunk_size: int = 16 << 20
    ) -> requests.Response:
        """Upload a file in chunks of `chunk_size` bytes."""
        return self._upload(blob, container, layer, chunk_size)

    def _upload(
        self, blob: str, container: Container | str, layer: dict[str, Any], chunk: int | None
    ) -> requests.Response:
        self.push_blob(self.get_container(container), _descriptor(layer), FileContent(blob), chunk=chunk)
        return _made(201)

    def get_blob(
        self, container: Container | str, digest: str, stream: bool = False, head: bool = False
    ) -> requests.Response:
        """A blob; its size and digest are verified when its end is read.

        Args:
            container: The repository.
            digest: Digest of the blob.
            stream: Whether the body is left unread; otherwise all of it is brought into memory.
            head: Whether the body is not wanted at all.
        """
        container = self.get_container(container)
        found = self.head_blob(container, parse_digest(digest, container.uri))
        if found.status_code != 200 and not head:
            # The response to a HEAD does not say why.
            found = self.request(self.call(container, "GET", f"blobs/{digest}", "pulling the blob"), accept=None)
            return _as_requests(found)
        if head:
            return _as_requests(found)
        response = _as_requests(found, _ResponseStream(self._verified(container, digest, found)))
        if not stream:
            with response:
                response.content  # noqa: B018 - reads it
        return response

    def download_blob(self, container: Container | str, digest: str, outfile: str) -> str:
        """Download a blob into a file, which gets its name only when size and digest are right.

        Raises:
            IntegrityError: the registry gave other bytes.
            DestinationError: the file cannot be written.
        """
        container, target = self.get_container(container), Path(outfile)
        found = self.head_blob(container, parse_digest(digest, container.uri))
        if found.status_code != 200:
            raise self.error(self.call(container, "HEAD", "", f"looking for the blob {digest}"), found)
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(target) as file, self._verified(container, digest, found) as reader:
            file.copy(reader)
            file.publish()
        return outfile

    def _verified(self, container: Container, digest: str, found: httpx.Response) -> VerifiedReader:
        length = found.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            raise StoreError(f"{container.registry}: the registry does not tell the size of the blob {digest}")
        descriptor = Descriptor(media_type="application/octet-stream", digest=digest, size=int(length))
        return VerifiedReader(self.open_blob(container, descriptor), descriptor, container.registry)

    # Manifests and tags.

    def get_manifest(
        self,
        container: Container | str,
        allowed_media_type: list[str] | None = None,
        validation_schema: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A manifest or index as a dictionary, from verified bytes."""
        container = self.get_container(container)
        accept = tuple(allowed_media_type or ACCEPTED_MANIFESTS)
        data, _ = self.fetch_manifest(container, container.digest or container.tag, accept)
        document = _document(data, f"the manifest {container}")
        if validation_schema:
            import jsonschema  # comes with oras

            try:
                jsonschema.validate(document, schema=validation_schema)
            except jsonschema.ValidationError as exc:
                raise FormatError(f"the manifest {container} does not follow its schema ({exc.message})") from None
        return document

    def upload_manifest(self, manifest: dict[str, Any] | bytes, container: Container | str) -> requests.Response:
        """Upload a manifest or index under its own media type; a dictionary in the bytes that oras-py writes."""
        container = self.get_container(container)
        data = manifest if isinstance(manifest, bytes) else _stock_json(manifest)
        media_type = media_type_of(_document(data, "the manifest")) or MEDIA_TYPE_MANIFEST
        return _as_requests(self.push_manifest(container, data, media_type, container.digest or container.tag))

    def get_tags(self, container: Container | str, N: int | None = None) -> list[str]:
        """Tags of a repository, at most `N` of them, in the order of the registry."""
        return list(itertools.islice(self.list_tags(self.get_container(container), N), N))

    def delete_tag(self, container: Container | str, tag: str) -> bool:
        """Remove a tag; its manifest stays where it has others. False: there was no such tag."""
        container = self.get_container(container)
        if self.head_manifest(container, tag) is None:
            return False
        self.remove_tag(container, tag)
        return True

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
        self._set(insecure=self._options.insecure or not tls_verify)
        if config_path:
            self._set(registry_config=Path(config_path))
        where = login(name, username, password, self._options).stored
        return {"Status": "Login Succeeded", "Stored": where}

    def logout(self, hostname: str) -> None:
        """Forget the stored login of a host."""
        logout(hostname, self._options)

    def _set(self, **options: Any) -> None:
        self._options = replace(self._options, **options)
        self._known.clear()


class _Credentials:
    """Stands where the stock client keeps its token; ours are kept per host, repository and actions."""

    token = None

    def __init__(self, owner: RegistryClient) -> None:
        self._owner = owner

    def load_configs(self, container: Any, configs: list[str] | None = None) -> None:
        if configs:
            self._owner._set(registry_config=Path(configs[0]))

    def set_basic_auth(self, username: str, password: str) -> None:
        self._owner._set(username=username, password=password)

    def logout(self, hostname: str) -> None:
        self._owner.logout(hostname)


_ACTIONS = {"GET": "pull", "HEAD": "pull", "DELETE": "delete,pull"}


class _ResponseReader:
    """The raw stream from which `requests` reads a body."""

    def __init__(self, response: httpx.Response, error: Callable[[httpx.HTTPError], OcibridgeError]) -> None:
        self._response = response
        self._error = error
        self._pieces = raw_body(response)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        try:
            while size < 0 or not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest += piece
        except httpx.HTTPError as exc:
            raise self._error(exc) from exc
        end = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:end], self._rest[end:]
        return data

    def close(self) -> None:
        self._response.close()

    release_conn = close


class _ResponseStream(io.BufferedReader):
    """A verified blob, as `requests` reads a body."""

    def __init__(self, reader: VerifiedReader) -> None:
        super().__init__(reader)

    def release_conn(self) -> None:
        self.close()


def _as_requests(response: httpx.Response, raw: _ResponseReader | _ResponseStream | None = None) -> requests.Response:
    made = _made(response.status_code)
    made.headers.update(response.headers)
    made.url = str(response.url)
    made.request = requests.Request(response.request.method, str(response.url.copy_with(query=None))).prepare()
    if raw is None:
        made._content = response.content
    else:
        made._content = False
        made._content_consumed = False
        made.raw = raw
    return made


def _made(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.reason = httpx.codes.get_reason_phrase(status)
    response._content = b""
    response._content_consumed = True
    return response


def _headers(response: requests.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.lower() != "content-encoding"}


def _stock_json(value: Any) -> bytes:
    # `oras.oci.Subject.from_manifest` takes the digest of this form for that of the manifest.
    return json.dumps(value, allow_nan=False).encode()


def _document(data: bytes, owner: str) -> dict[str, Any]:
    document = parse_json(data, owner, len(data))
    if not isinstance(document, dict):
        raise FormatError(f"{owner} is not a JSON object")
    return cast(dict[str, Any], document)


def _descriptor(layer: dict[str, Any]) -> Descriptor:
    try:
        return Descriptor(
            media_type=str(layer.get("mediaType", "")),
            digest=parse_digest(str(layer["digest"]), "the layer"),
            size=int(layer["size"]),
        )
    except (LookupError, ValueError, OcibridgeError) as exc:
        raise UsageError("a layer needs 'digest' and 'size' to be uploaded") from exc

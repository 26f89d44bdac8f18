# SPDX-License-Identifier: Apache-2.0
"""Fetching files that a carton only links to (seed 000, "LINKS").

Fetching is the one thing that a carton can make this package do on the network, so it happens only when asked for,
over http and https, to allowed hosts, without credentials, and only the sha256 is trusted.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx

from ...errors import IntegrityError, LimitError, OcibridgeError, SourceError
from ...io.atomic import AtomicFile
from ...io.content import FileContent
from ...io.metering import logged_transport
from ...io.readers import Reader
from ...paths import show
from ...settings import READ_SIZE, Limits
from ..zip import Decoder, inflater, unzstd
from .links import public_url

_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_TIMEOUT = httpx.Timeout(60, connect=15)
_HEADERS = {"Accept-Encoding": "zstd, gzip, deflate, br", "User-Agent": "ocibridge"}


class LinkContent(FileContent):
    """A fetched and verified file, in a private temporary folder that goes with the last content in it."""

    def __init__(self, path: Path, folder: _Folder) -> None:
        super().__init__(path)
        self._folder = folder


class LinkFetcher:
    """Fetches linked files, each once.

    The size of a linked file is known only when it has been fetched, and a `Content` must know its size and open
    again: so each is written to a temporary folder, the one exception to "no temporary copy" there is.

    Args:
        hosts: `host` (any port) or `host:port` that may be asked, on every hop; empty allows any.
        limits: `link` bounds one file before and after decoding, in bytes; `zstd_window` its decoder.
    """

    def __init__(self, hosts: tuple[str, ...], limits: Limits) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._limits = limits
        self._folder = _Folder()
        self._known: dict[str, LinkContent] = {}

    def fetch(self, path: str, sha256: str, urls: list[str]) -> LinkContent:
        """The file `path` from the first of `urls` that has it.

        Raises:
            SourceError: none of them has it; the message says why, URL by URL.
        """
        if sha256 not in self._known:
            self._known[sha256] = self._first(path, sha256, urls)
        return self._known[sha256]

    def _first(self, path: str, sha256: str, urls: list[str]) -> LinkContent:
        target = self._folder.path / sha256
        reasons = []
        # No environment: a proxy or a .netrc must not add credentials.
        transport = logged_transport()
        with httpx.Client(
            trust_env=False, follow_redirects=False, timeout=_TIMEOUT, headers=_HEADERS, transport=transport
        ) as client:
            for url in urls:
                try:
                    self._try(client, url, sha256, target)
                    return LinkContent(target, self._folder)
                except (_Rejected, IntegrityError, LimitError) as exc:
                    reasons.append(f"{public_url(url)}: {exc}")
                except (httpx.HTTPError, httpx.InvalidURL) as exc:
                    reasons.append(f"{public_url(url)}: {str(exc).lower() or type(exc).__name__}")
        raise SourceError(
            f"cannot fetch the linked file {show(path)} ({'; '.join(reasons) or 'LINKS has no URL for it'})",
            hint="ask the publisher for a carton that contains the file",
        )

    def _try(self, client: httpx.Client, url: str, sha256: str, target: Path) -> None:
        here = self._allowed(url, None)
        for _ in range(_MAX_REDIRECTS + 1):
            with client.stream("GET", here) as response:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    here = self._allowed(response.headers["location"], here)
                    continue
                if response.status_code != 200:
                    raise _Rejected(f"the server responded with status {response.status_code}")
                self._save_verified(response, sha256, target)
                return
        raise _Rejected(f"more than {_MAX_REDIRECTS} redirects")

    def _allowed(self, url: str, before: httpx.URL | None) -> httpx.URL:
        place = before.join(url) if before else httpx.URL(url)
        if place.scheme not in ("http", "https") or not place.host:
            raise _Rejected("only http and https are fetched")
        if before and before.scheme == "https" and place.scheme == "http":
            raise _Rejected("it redirects from https to http")
        if place.userinfo:
            raise _Rejected("it has credentials in it")
        port = place.port or {"http": 80, "https": 443}[place.scheme]
        host = f"[{place.host}]" if ":" in place.host else place.host
        if self._hosts and not {place.host, host, f"{host}:{port}"} & self._hosts:
            raise _Rejected(f"the host {host}:{port} is not allowed by --links-host")
        return place

    def _save_verified(self, response: httpx.Response, sha256: str, target: Path) -> None:
        """Save the response body to `target` if it has the expected sha256, as received or after content decoding.

        The body as received is tried first, because some publishers give the sha256 of the encoded file.

        Args:
            response: The response, whose body has not been read.
            sha256: The expected hex sha256.
            target: The path of the file.

        Raises:
            _Rejected: neither form has the sha256, a form is larger than `Limits.link`, or its encoding is not known.
            IntegrityError: the encoded body is damaged.
            LimitError: a zstd frame asks for too large a window.
        """
        with AtomicFile(target) as raw:
            if self._write(raw, response.iter_raw(READ_SIZE)) == sha256:
                raw.publish()
                return
            encoding = response.headers.get("content-encoding", "identity").strip().lower()
            with AtomicFile(target) as decoded, open(raw.path, "rb", buffering=0) as source:
                if self._write(decoded, _pieces(self._decoder(encoding, source))) != sha256:
                    raise _Rejected("the file has another sha256 than MANIFEST says")
                decoded.publish()

    def _write(self, file: AtomicFile, pieces: Iterator[bytes]) -> str:
        digest = hashlib.sha256()
        for piece in pieces:
            if file.size + len(piece) > self._limits.link:
                raise _Rejected(f"the file has more than the {self._limits.link} bytes accepted")
            digest.update(piece)
            file.write(piece)
        return digest.hexdigest()

    def _decoder(self, encoding: str, source: Reader) -> Decoder:
        label = f"the {encoding} body"
        if encoding in ("gzip", "x-gzip"):
            return inflater(source, label, 16 + zlib.MAX_WBITS)
        if encoding == "deflate":
            head = source.read(2) or b""
            source.seek(0)
            return _deflate(source, head, label)
        if encoding == "zstd":
            return unzstd(source, label, self._limits.zstd_window)
        if encoding == "br":
            return _brotli(source, label)
        if encoding in ("", "identity"):
            raise _Rejected("the file has another sha256 than MANIFEST says")
        raise _Rejected(f"its content encoding {show(encoding)} is not known")


def check_open(url: str, host: str) -> None:
    """Ask for a linked file as the carton client does: HEAD, without credentials.

    Args:
        url: Where it is.
        host: What messages call the server.

    Raises:
        SourceError: the server does not give it to everybody, or does not say its length.
    """
    try:
        with httpx.Client(
            trust_env=False, follow_redirects=True, timeout=_TIMEOUT, transport=logged_transport()
        ) as client:
            response = client.head(url, headers={"Accept-Encoding": "identity"})
        length = response.headers.get("content-length")
        reason = (
            f"it responded with status {response.status_code}"
            if response.status_code != 200
            else "it does not say their length"
        )
        if response.status_code == 200 and length is not None:
            return
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        reason = str(exc).lower() or type(exc).__name__
    raise SourceError(
        f"{host} does not give blobs without a login, as the carton client asks for them ({reason})",
        hint="pull the whole carton, without --thin",
    )


class _Rejected(OcibridgeError):
    """Why one URL did not give the file."""


class _Folder:
    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ocibridge-links-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _pieces(decode: Decoder) -> Iterator[bytes]:
    buffer = memoryview(bytearray(READ_SIZE))
    while count := decode(buffer):
        yield bytes(buffer[:count])


def _deflate(source: Reader, head: bytes, label: str) -> Decoder:
    """`deflate` is zlib by RFC 9110 and raw deflate by custom; the first two bytes tell (RFC 1950, section 2.2)."""
    zlib_header = len(head) == 2 and head[0] & 0x0F == 8 and int.from_bytes(head, "big") % 31 == 0
    return inflater(source, label, zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)


def _brotli(source: Reader, label: str) -> Decoder:
    try:
        import brotli

        stream = brotli.Decompressor()
        accepts = stream.can_accept_more_data
    except (ImportError, AttributeError):
        raise _Rejected("it is compressed with brotli, which needs `pip install 'brotli>=1.2'`") from None
    rest = b""

    def decode(target: memoryview) -> int:
        nonlocal rest
        while not rest and not stream.is_finished():
            feed = (source.read(READ_SIZE) or b"") if accepts() else b""
            ended = not feed and accepts()
            try:
                # The limit is not exact: what is left over waits for the next call.
                rest = stream.process(feed, output_buffer_limit=len(target))
            except brotli.error:
                raise IntegrityError(f"{label}: the compressed data is damaged") from None
            if ended and not rest:
                break
        count = min(len(rest), len(target))
        target[:count], rest = rest[:count], rest[count:]
        return count

    return decode

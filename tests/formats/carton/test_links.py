# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import gzip
import hashlib
import logging
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
import zstandard

from ocibridge.errors import FormatError, SourceError
from ocibridge.formats.carton import CartonFormat, fetch
from ocibridge.formats.carton.options import CartonReadOptions
from ocibridge.model import Model
from ocibridge.settings import Limits

from ..build import Raw, carton, contents, whole
from ..linkserver import Answer, LinkServer, link_server

FIXTURES = Path(__file__).parents[2] / "fixtures"
BODY = b"weights of some model, weights of some model\n" * 200
ZLIB_RAW = zlib.compressobj(9, zlib.DEFLATED, -15)
ENCODED = {
    "identity": BODY,
    "gzip": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
    "zstd": zstandard.ZstdCompressor().compress(BODY),
    "br": brotli.compress(BODY),
}


@pytest.fixture
def server() -> Iterator[LinkServer]:
    with link_server() as running:
        yield running


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def thin(path: Path, *urls: str) -> Path:
    """A carton without `model/a.bin`, which has BODY."""
    text = f"version = 1\n[urls]\n{hashlib.sha256(BODY).hexdigest()} = {list(urls)}\n"
    return carton(
        path / "a.carton", {"model/a.bin": BODY}, without=["model/a.bin"], extra=[Raw(b"LINKS", text.encode())]
    )


def read(path: Path, *hosts: str, limits: Limits | None = None) -> Model:
    return CartonFormat().read(path, CartonReadOptions(fetch_links=True, links_hosts=hosts, limits=limits or Limits()))


def test_nothing_is_fetched_unless_asked(tmp_path: Path, server: LinkServer) -> None:
    with pytest.raises(FormatError, match="only linked from http://127") as caught:
        CartonFormat().read(thin(tmp_path, server.url("/a?token=secret")), CartonReadOptions())
    assert server.seen == []
    assert "secret" not in str(caught.value)


def test_linked_files_may_stay_so(tmp_path: Path, server: LinkServer) -> None:
    path = thin(tmp_path, server.url("/a"))
    model = CartonFormat().read(path, CartonReadOptions(linked=True))
    server.answers["/a"] = Answer(BODY)
    whole = read(path)
    assert [(file.path, file.size, file.sha256) for file in model.linked] == [
        ("model/a.bin", None, hashlib.sha256(BODY).hexdigest())
    ]
    assert {file.path for file in whole.files} - {file.path for file in model.files} == {"model/a.bin"}
    assert model.identity == whole.identity
    assert model.warnings == (), "nothing is said of files in an artifact"
    assert CartonFormat().read(path, CartonReadOptions(linked=True, fetch_links=True)).linked == ()


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("honest", [True, False])
def test_encodings(tmp_path: Path, server: LinkServer, encoding: str, honest: bool) -> None:
    """Decoded where the server encodes, and as it is where it only says so."""
    server.answers["/a"] = Answer(ENCODED[encoding] if honest else BODY, {"Content-Encoding": encoding})
    model = read(thin(tmp_path, server.url("/a")))
    assert contents(model)["model/a.bin"] == BODY
    assert "LINKS" not in contents(model)
    assert model.warnings == (
        "LINKS is not stored: every file is in the artifact itself; the manifest hash stays the same",
    )


def test_raw_deflate(tmp_path: Path, server: LinkServer) -> None:
    body = ZLIB_RAW.compress(BODY) + ZLIB_RAW.flush()
    server.answers["/a"] = Answer(body, {"Content-Encoding": "Deflate"})
    assert contents(read(thin(tmp_path, server.url("/a"))))["model/a.bin"] == BODY


def test_no_credentials(tmp_path: Path, server: LinkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:1")
    server.answers["/a"] = Answer(BODY)
    read(thin(tmp_path, server.url("/a")))
    ((_, headers),) = server.seen
    assert not {"authorization", "cookie", "proxy-authorization"} & headers.keys()


def test_every_url_is_tried(tmp_path: Path, server: LinkServer) -> None:
    server.answers = {"/wrong": Answer(b"no"), "/right": Answer(BODY)}
    names = ("/missing", "/wrong", "/right", "/never")
    urls = ["ftp://127.0.0.1/a", "http://127.0.0.1:1/a", *(server.url(name) for name in names)]
    assert contents(read(thin(tmp_path, *urls)))["model/a.bin"] == BODY
    assert [path for path, _ in server.seen] == ["/missing", "/wrong", "/right"]


def test_requests_can_be_seen_without_the_secrets_of_an_address(
    tmp_path: Path, server: LinkServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers["/a"] = Answer(BODY)
    with caplog.at_level(logging.DEBUG, "ocibridge.http"):
        read(thin(tmp_path, server.url("/a?sig=secret")))
    (line,) = (each.getMessage() for each in caplog.records if each.name == "ocibridge.http")
    assert line.startswith(f"GET {server.url('/a')}?sig=… 200, received ")


def test_one_request_for_equal_files(tmp_path: Path, server: LinkServer) -> None:
    server.answers["/a"] = Answer(BODY)
    text = f'version = 1\n[urls]\n{hashlib.sha256(BODY).hexdigest()} = ["{server.url("/a")}"]\n'
    files = {"model/a": BODY, "model/b": BODY}
    path = carton(tmp_path / "a.carton", files, without=files, extra=[Raw(b"LINKS", text.encode())])
    assert contents(read(path)).items() >= files.items()
    assert len(server.seen) == 1


def test_temporary_files_go(tmp_path: Path, server: LinkServer, temporary_folder: Path) -> None:
    server.answers["/a"] = Answer(BODY)
    model = read(thin(tmp_path, server.url("/a")))
    assert len(list(temporary_folder.rglob("*"))) == 2
    contents(model)
    del model
    gc.collect()
    assert list(temporary_folder.iterdir()) == []


CASES = {
    "wrong bytes": (Answer(b"other"), "another sha256 than MANIFEST"),
    "wrong decoded bytes": (Answer(gzip.compress(b"x"), {"Content-Encoding": "gzip"}), "another sha256"),
    "unknown encoding": (Answer(b"x", {"Content-Encoding": "compress"}), "'compress' is not known"),
    "damaged gzip": (Answer(b"x" * 50, {"Content-Encoding": "gzip"}), "damaged"),
    "damaged br": (Answer(b"\xff" * 50, {"Content-Encoding": "br"}), "damaged|another sha256"),
    "cut gzip": (Answer(ENCODED["gzip"][:-20], {"Content-Encoding": "gzip"}), "another sha256"),
    "cut br": (Answer(ENCODED["br"][:-5], {"Content-Encoding": "br"}), "another sha256"),
    "cut body": (
        Answer(BODY[:-1], {"Content-Length": str(len(BODY)), "Connection": "close"}),
        "peer closed|incomplete",
    ),
    "status": (Answer(BODY, status=401), "responded with status 401"),
    "partial": (Answer(BODY, status=206), "responded with status 206"),
    "loop": (Answer(status=302, headers={"Location": "/a"}), "more than 5 redirects"),
    "to a file": (Answer(status=302, headers={"Location": "file:///etc/passwd"}), "only http and https"),
    "to credentials": (Answer(status=307, headers={"Location": "http://me:pw@127.0.0.1/"}), "credentials in it"),
    "to another host": (Answer(status=302, headers={"Location": "http://localhost:1/a"}), "localhost:1 is not allowed"),
    "too large": (Answer(bytes(20_000)), "more than the 10000 bytes"),
    "bomb": (Answer(gzip.compress(bytes(1 << 24)), {"Content-Encoding": "gzip"}), "more than the 10000 bytes"),
    "br bomb": (Answer(brotli.compress(bytes(1 << 24)), {"Content-Encoding": "br"}), "more than the 10000 bytes"),
}


@pytest.mark.parametrize("case", CASES)
def test_rejected_answers(tmp_path: Path, server: LinkServer, temporary_folder: Path, case: str) -> None:
    server.answers["/a"], sentence = CASES[case]
    with pytest.raises(SourceError, match=sentence) as caught:
        read(thin(tmp_path, server.url("/a?token=secret")), "127.0.0.1", limits=Limits(link=10_000))
    assert "cannot fetch the linked file 'model/a.bin'" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "me:pw" not in str(caught.value)
    assert "\n" not in str(caught.value)
    caught = None  # type: ignore[assignment]
    gc.collect()
    assert [path for path in temporary_folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://me:secret@127.0.0.1/a", "credentials in it"),
        ("file:///etc/passwd", "only http and https"),
        ("http:///a", "only http and https|request"),
        ("http://[::1/a", "cannot be parsed"),
        ("\0", "cannot be parsed|only http"),
        ("http://evil.example/a", "the host evil.example:80 is not allowed by --links-host"),
        ("https://evil.example/a", "the host evil.example:443 is not allowed by --links-host"),
        ("http://127.0.0.1.evil.example/a", "is not allowed"),
        ("http://127.0.0.1:9/a", "is not allowed"),
    ],
)
def test_rejected_urls(tmp_path: Path, url: str, sentence: str) -> None:
    fetcher = fetch.LinkFetcher(("127.0.0.1:80", "[::1]"), Limits())
    with pytest.raises(SourceError, match=sentence) as caught:
        fetcher.fetch("a", "0" * 64, [url])
    assert "secret" not in str(caught.value)


def test_no_downgrade() -> None:
    fetcher = fetch.LinkFetcher((), Limits())
    before = fetcher._allowed("https://example.org/a", None)
    assert str(fetcher._allowed("/b", before)) == "https://example.org/b"
    with pytest.raises(fetch._Rejected, match="from https to http"):
        fetcher._allowed("http://example.org/a", before)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:{port}"])
def test_allowed_hosts_and_redirects(tmp_path: Path, server: LinkServer, host: str) -> None:
    server.answers = {"/a": Answer(status=301, headers={"Location": "b"}), "/b": Answer(BODY)}
    assert contents(read(thin(tmp_path, server.url("/a")), host.format(port=server.port)))["model/a.bin"] == BODY


@pytest.mark.parametrize("module", [None, type(sys)("brotli")])
def test_without_brotli(tmp_path: Path, server: LinkServer, monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setitem(sys.modules, "brotli", module)
    server.answers = {"/a": Answer(ENCODED["br"], {"Content-Encoding": "br"}), "/b": Answer(BODY)}
    assert contents(read(thin(tmp_path, server.url("/a"), server.url("/b"))))["model/a.bin"] == BODY
    with pytest.raises(SourceError, match=r"needs `pip install 'brotli>=1.2'`"):
        read(thin(tmp_path, server.url("/a")))


def test_row_that_no_link_names(tmp_path: Path) -> None:
    path = carton(
        tmp_path / "a.carton", whole({"model/a": b"1"}), without=["model/a"], extra=[Raw(b"LINKS", b"version = 1")]
    )
    with pytest.raises(FormatError, match="neither such a file nor a link"):
        read(path)

# SPDX-License-Identifier: Apache-2.0
"""A registry that speaks TLS, and what such servers do to a plain request."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

from ..registry import TLS
from .quirks import Registry

Answer = Callable[[socket.socket], None]
"""What becomes of a connection whose first byte is no TLS."""


def as_go(request: socket.socket) -> None:
    """As Go's net/http."""
    request.recv(1 << 16)
    request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")


def as_nginx(request: socket.socket) -> None:
    request.recv(1 << 16)
    page = b"<html><body>400 The plain HTTP request was sent to HTTPS port</body></html>"
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    request.sendall(head % len(page) + page)


def as_openssl(request: socket.socket) -> None:
    """An alert, as of protocol_version."""
    request.recv(1 << 16)
    request.sendall(b"\x15\x03\x01\x00\x02\x02\x46")


def closing(request: socket.socket) -> None:
    request.recv(1 << 16)


def resetting(request: socket.socket) -> None:
    """As Python's ssl does, which leaves what it did not understand unread."""
    request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Listening(Registry):
    """A registry that counts its connections by their first byte.

    Attributes:
        plain: Connections that began with a plain request.
        tls: Connections that began with TLS.
    """

    def __init__(self, name: str = "127.0.0.1") -> None:
        super().__init__(name)
        self.plain = self.tls = 0
        self._handle = self._server.process_request_thread
        self._server.process_request_thread = self._look  # type: ignore[assignment, method-assign]

    def _look(self, request: Any, address: Any) -> None:
        first = request.recv(1, socket.MSG_PEEK)
        with self._turn:
            self.tls += first == b"\x16"
            self.plain += first not in (b"\x16", b"")
        self.first(request, address, first == b"\x16")

    def first(self, request: Any, address: Any, tls: bool) -> None:
        """Serve a connection."""
        self._handle(request, address)


class TlsRegistry(Listening):
    """A registry that speaks TLS only.

    Args:
        answer: What it does to plain requests.
        name: Its name.
        wants_certificate: Whether clients have to have a certificate.
    """

    def __init__(self, answer: Answer, name: str = "127.0.0.1", wants_certificate: bool = False) -> None:
        super().__init__(name)
        self.url = f"https://{self.host}"
        self._answer_plain = answer
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
        if wants_certificate:
            self._context.load_verify_locations(TLS / "ca.pem")
            self._context.verify_mode = ssl.CERT_REQUIRED

    def first(self, request: Any, address: Any, tls: bool) -> None:
        if tls:
            wrapped = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            super().first(wrapped, address, tls)
            return
        try:
            self._answer_plain(request)
        except OSError:
            pass
        finally:
            self._server.close_request(request)

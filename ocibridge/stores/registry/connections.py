# SPDX-License-Identifier: Apache-2.0
"""Connections to a host: TLS, certificates, no cookies, no compression."""

from __future__ import annotations

import logging
import ssl
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import metadata

import httpx

from ...errors import UsageError, reading
from .options import RegistryOptions, is_local


def new_client(options: RegistryOptions, own: bool, origin: httpx.URL) -> httpx.Client:
    """A client for the registry itself (`own`), or for the hosts that it sends us to.

    Raises:
        UsageError: the certificate files cannot be used.
        SourceError: one of them cannot be read.
    """
    logging.getLogger("httpx").addFilter(_hide_query)
    plain = own and origin.scheme == "http"
    return httpx.Client(
        # Reading the machine's authorities takes longer than a small pull; plain HTTP needs none.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else _tls(options, own),
        headers={"User-Agent": user_agent(), "Accept-Encoding": "identity", "Accept": "*/*"},
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
        follow_redirects=False,
        # As in Go's net/http, which every other registry client uses: no proxy for the machine itself.
        trust_env=not is_local(origin.host),
    )


def _tls(options: RegistryOptions, own: bool) -> ssl.SSLContext:
    for path in (options.ca_file, options.cert_file, options.key_file):
        if path is not None:
            with reading(path), open(path, "rb"):
                pass
    try:
        # For the registry, the authority given is the only one (as with the ORAS command line); the hosts that it
        # sends us to are often public ones.
        context = ssl.create_default_context(cafile=options.ca_file if own else None)
        if not own and options.ca_file:
            context.load_verify_locations(cafile=options.ca_file)
        if own and options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file, password="")
    except (ssl.SSLError, ValueError) as exc:
        raise UsageError(
            "the certificate files cannot be used "
            f"({', '.join(str(p) for p in (options.ca_file, options.cert_file, options.key_file) if p)})",
            hint="--ca-file, --cert-file and --key-file need PEM files, the key without a password",
        ) from exc
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not options.ca_file and not context.get_ca_certs():
        import certifi  # a dependency of httpx; for machines that have no certificate store

        context.load_verify_locations(cafile=certifi.where())
    return context


def _hide_query(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) and arg.query else arg for arg in record.args
        )
    return True


@lru_cache(maxsize=1)
def user_agent() -> str:
    """`ocibridge/<version>`."""
    try:
        return f"ocibridge/{metadata.version('ocibridge')}"
    except metadata.PackageNotFoundError:
        return "ocibridge/0"

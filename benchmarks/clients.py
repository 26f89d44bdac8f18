# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.clients HOST:PORT REPOSITORY TAG COUNT ROUNDS`: what a small request costs an HTTP client.

Each client gets the same manifest over a connection that it keeps open, one request after the other; prints
`{CLIENT: [{"user": MS, "system": MS, "wall": MS}]}`, milliseconds a request, one entry for each round.
"""

from __future__ import annotations

import http.client
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HTTP_CLIENT, URLLIB3, HTTPX, OURS = "http.client", "urllib3", "httpx.Client", "ocibridge, RegistryStore.fetch_manifest"
Fetch = Callable[[], bytes]
Client = Callable[[str, str, str], AbstractContextManager[Fetch]]


def _path(repository: str, tag: str) -> str:
    return f"/v2/{repository}/manifests/{tag}"


@contextmanager
def by_http_client(host: str, repository: str, tag: str) -> Iterator[Fetch]:
    """The standard library."""
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:

        def fetch() -> bytes:
            connection.request("GET", _path(repository, tag), headers={"Accept": MANIFEST})
            with connection.getresponse() as response:
                return response.read()

        yield fetch


@contextmanager
def by_urllib3(host: str, repository: str, tag: str) -> Iterator[Fetch]:
    """urllib3, on which requests is built, and with it the oras package."""
    import urllib3

    name, _, port = host.rpartition(":")
    with urllib3.HTTPConnectionPool(name, int(port), maxsize=1, timeout=60) as pool:
        yield lambda: pool.request("GET", _path(repository, tag), headers={"Accept": MANIFEST}).data


@contextmanager
def by_httpx(host: str, repository: str, tag: str) -> Iterator[Fetch]:
    """httpx."""
    import httpx

    with httpx.Client(base_url=f"http://{host}", trust_env=False, timeout=60) as client:
        yield lambda: client.get(_path(repository, tag), headers={"Accept": MANIFEST}).content


@contextmanager
def by_ocibridge(host: str, repository: str, tag: str) -> Iterator[Fetch]:
    """The library's own surface; it also verifies the digest and what the manifest is."""
    from ocibridge.oci import RegistryReference
    from ocibridge.stores.registry import RegistryOptions, RegistryStore

    with RegistryStore(RegistryReference(host, repository, tag), RegistryOptions(plain_http=True)) as store:
        yield lambda: store.fetch_manifest(tag)[1]


CLIENTS: Mapping[str, Client] = {
    HTTP_CLIENT: by_http_client,
    URLLIB3: by_urllib3,
    HTTPX: by_httpx,
    OURS: by_ocibridge,
}


def costs(host: str, repository: str, tag: str, count: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Milliseconds a request of each client.

    Args:
        host: `HOST:PORT` of a registry that speaks HTTP.
        repository: Repository of the manifest.
        tag: Its tag.
        count: Requests of each client in a round; a tenth of them come first and do not count.
        rounds: Rounds; each starts with another client.

    Raises:
        SystemExit: a client got something else than the others.
    """
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    with ExitStack() as stack:
        fetches = [(name, stack.enter_context(client(host, repository, tag))) for name, client in CLIENTS.items()]
        answers = {fetch() for _, fetch in fetches for _ in range(max(1, count // 10))}
        if len(answers) != 1:
            raise SystemExit("the clients got different answers")
        for number in range(rounds):
            first = number % len(fetches)
            for name, fetch in (*fetches[first:], *fetches[:first]):
                found[name].append(_cost(fetch, count))
    return found


def _cost(fetch: Fetch, count: int) -> dict[str, float]:
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(count):
        fetch()
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
    seconds = {"user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime, "wall": wall}
    return {name: 1000 * each / count for name, each in seconds.items()}


def main(arguments: list[str]) -> None:
    """Measure, and print."""
    host, repository, tag, count, rounds = arguments
    print(json.dumps(costs(host, repository, tag, int(count), int(rounds))))


if __name__ == "__main__":
    main(sys.argv[1:])

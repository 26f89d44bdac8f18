# SPDX-License-Identifier: Apache-2.0
"""The real registry behind a bad line: cut, delayed, throttled, corrupted, refused, in either direction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ocibridge
from ocibridge.stores.registry import Retry
from ocibridge.stores.registry.options import Timeouts

from ..registry import RegistryServer
from .conftest import without_a_proxy
from .moves import Moves, make_model
from .proxy import Line, Proxy, Way

# In the first answer or request, between the headers and the body, in the bodies, at their end.
CUTS = (0, 1, 90, 300, 5_000, 200_000, 1_099_000)
FLIPS = (4, 12, 40, 200, 450, 1_500, 300_000, 1_000_000)
SIDES = ("up", "down")


@pytest.fixture
def here(moves: Moves, repository: str) -> Moves:
    return replace(moves, name=repository)


@pytest.fixture
def there(here: Moves, registry: RegistryServer) -> Moves:
    """A model that is in the registry."""
    here.push(registry.host)
    return here


def line(side: str, way: Way, **more: float) -> Line:
    return Line(way, **more) if side == "up" else Line(down=way, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", CUTS)
@pytest.mark.parametrize("side", SIDES)
def test_push_over_lines_that_are_cut_at_first(side: str, count: int, here: Moves, registry: RegistryServer) -> None:
    cut = line(side, Way(cut=count))
    with Proxy(registry.host, cut, cut) as proxy:
        assert here.try_push(proxy.host, registry.host)


@pytest.mark.parametrize("count", CUTS)
@pytest.mark.parametrize("side", SIDES)
def test_pull_over_lines_that_are_cut_at_first(side: str, count: int, there: Moves, registry: RegistryServer) -> None:
    cut = line(side, Way(cut=count))
    with Proxy(registry.host, cut, cut) as proxy:
        assert there.try_pull(proxy.host)


@pytest.mark.parametrize("count", [0, 1, 90, 700])
@pytest.mark.parametrize("side", SIDES)
def test_lines_that_are_always_cut_early(side: str, count: int, there: Moves, registry: RegistryServer) -> None:
    with Proxy(registry.host, usual=line(side, Way(cut=count))) as proxy:
        there.try_pull(proxy.host)
        fresh = replace(there, name=f"{there.name}-fresh")
        fresh.try_push(proxy.host, registry.host)


def test_a_line_that_never_lasts_brings_everything_in_the_end(there: Moves, registry: RegistryServer) -> None:
    """Every connection breaks after 100 kB, far more often than there are attempts: each makes progress."""
    with Proxy(registry.host, usual=line("down", Way(cut=100_000))) as proxy:
        assert there.try_pull(proxy.host)
        assert proxy.connections > 2 * there.options.retries.attempts


@pytest.mark.parametrize("offset", FLIPS)
@pytest.mark.parametrize("side", SIDES)
def test_one_byte_that_changes_on_the_way(side: str, offset: int, there: Moves, registry: RegistryServer) -> None:
    bad = line(side, Way(corrupt=offset))
    with Proxy(registry.host, bad) as proxy:
        there.try_pull(proxy.host)
    with Proxy(registry.host, bad) as proxy:
        replace(there, name=f"{there.name}-fresh").try_push(proxy.host, registry.host)


def test_a_line_that_always_corrupts(there: Moves, registry: RegistryServer) -> None:
    with Proxy(registry.host, usual=line("down", Way(corrupt=500_000))) as proxy:
        there.pull_fails(proxy.host, "other bytes", ocibridge.IntegrityError)
    with Proxy(registry.host, usual=line("up", Way(corrupt=500_000))) as proxy:
        replace(there, name=f"{there.name}-fresh").try_push(proxy.host, registry.host)


@pytest.mark.parametrize("side", SIDES)
def test_delays(side: str, here: Moves, registry: RegistryServer) -> None:
    with Proxy(registry.host, usual=line(side, Way(delay=0.2))) as proxy:
        assert here.try_push(proxy.host, registry.host)
        assert here.try_pull(proxy.host)


@pytest.mark.parametrize("side", SIDES)
def test_a_delay_beyond_patience(side: str, there: Moves, registry: RegistryServer) -> None:
    impatient = {"timeouts": Timeouts(read=0.2, commit=0.2), "retries": Retry(attempts=2, first=0.01)}
    with Proxy(registry.host, usual=line(side, Way(delay=30))) as proxy:
        there.pull_fails(proxy.host, "stopped responding", ocibridge.NetworkError, options=impatient)
        there.push_fails(proxy.host, "stopped responding", ocibridge.NetworkError, options=impatient)


@pytest.mark.parametrize("side", SIDES)
def test_a_delay_that_passes(side: str, there: Moves, registry: RegistryServer) -> None:
    slow = line(side, Way(delay=30))
    impatient = {"timeouts": Timeouts(read=0.3, commit=0.3)}
    with Proxy(registry.host, slow) as proxy:
        there.pull(proxy.host, options=impatient)


@pytest.mark.parametrize("side", SIDES)
def test_a_slow_line(side: str, here: Moves, registry: RegistryServer) -> None:
    with Proxy(registry.host, usual=line(side, Way(rate=4_000_000))) as proxy:
        assert here.try_push(proxy.host, registry.host)
        assert here.try_pull(proxy.host)


def test_an_upload_that_is_hardly_taken(tmp_path: Path, repository: str, registry: RegistryServer) -> None:
    """Bytes keep going, so no timeout between two of them ends it; more of them than the system's buffers take."""
    moves = Moves(make_model(tmp_path / "large.carton", 12_000_000), tmp_path, name=repository)
    slow = {
        "timeouts": Timeouts(write=20, rate=4_000_000, window=0.3),
        "retries": Retry(attempts=2, first=0.01),
    }
    with Proxy(registry.host, usual=line("up", Way(rate=400_000))) as proxy:
        moves.push_fails(proxy.host, "too slow.*4000000 bytes per second", ocibridge.NetworkError, options=slow)
    with pytest.raises(ocibridge.NotFound):
        moves.pull(registry.host)


def test_an_upload_that_is_not_taken_at_all(tmp_path: Path, repository: str, registry: RegistryServer) -> None:
    moves = Moves(make_model(tmp_path / "large.carton", 12_000_000), tmp_path, name=repository)
    stuck = {"timeouts": Timeouts(write=0.3), "retries": Retry(attempts=2, first=0.01)}
    with Proxy(registry.host, usual=line("up", Way(rate=2_000))) as proxy:
        moves.push_fails(proxy.host, "stopped responding", ocibridge.NetworkError, options=stuck)
    with pytest.raises(ocibridge.NotFound):
        moves.pull(registry.host)


@without_a_proxy
def test_a_registry_that_is_not_there(here: Moves, registry: RegistryServer) -> None:
    with Proxy(registry.host, listening=False) as proxy:
        here.push_fails(proxy.host, "refused the connection; check the port", ocibridge.NetworkError)
        here.pull_fails(proxy.host, "refused the connection; check the port", ocibridge.NetworkError)


@pytest.mark.parametrize("side", SIDES)
def test_a_registry_that_is_away_for_a_while(side: str, there: Moves, registry: RegistryServer) -> None:
    """Cut in the middle, then refused, then back: as when it is started anew."""
    gone = line(side, Way(cut=400 if side == "up" else 300_000), outage=0.3)
    patient = {"retries": Retry(attempts=8, first=0.05)}
    with Proxy(registry.host, gone) as proxy:
        there.pull(proxy.host, options=patient)
    gone = line("up", Way(cut=300_000), outage=0.3)
    with Proxy(registry.host, gone) as proxy:
        replace(there, name=f"{there.name}-fresh").push(proxy.host, options=patient)


def test_connections_that_are_reset(there: Moves, registry: RegistryServer) -> None:
    reset = Line(reset=True)
    with Proxy(registry.host, reset) as proxy:
        assert there.try_pull(proxy.host)
    with Proxy(registry.host, reset) as proxy:
        assert replace(there, name=f"{there.name}-fresh").try_push(proxy.host, registry.host)
    with Proxy(registry.host, usual=reset) as proxy:
        there.pull_fails(proxy.host, "broke the connection", ocibridge.NetworkError)

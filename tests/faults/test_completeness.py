# SPDX-License-Identifier: Apache-2.0
"""What registries and lines are known to do, and the tests that do it to us: a list to check for gaps."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

# Each line: what happens; then tests, as `module::function` or `module::function[case]`, below tests/.
COVERED: dict[str, tuple[str, ...]] = {
    # Registries.
    "distribution 2.8: appends any chunk, loses a cut session, wants Accept": (
        "faults.test_registries::test_there_and_back[Distribution2]",
        "faults.test_registries::test_a_proxy_that_limits_requests[Distribution2]",
        "faults.test_lines::test_push_over_lines_that_are_cut_at_first",
    ),
    "distribution 3: 416 out of order, keeps what came before a cut": (
        "faults.test_registries::test_there_and_back[Distribution3]",
        "faults.test_pushes::test_failures_are_counted_from_the_last_progress",
    ),
    "zot: no unknown lengths, OCI-Chunk-Min-Length, referrers": (
        "faults.test_registries::test_there_and_back[Zot]",
        "faults.test_registries::test_zot_gets_its_least_chunk",
    ),
    "Harbor behind nginx: 413, 504, cookies": (
        "faults.test_registries::test_there_and_back[Harbor]",
        "faults.test_registries::test_an_nginx_that_gives_up_waiting",
        "faults.test_registries::test_cookies_are_not_kept",
    ),
    "GHCR: 416 above 4 MiB, redirects, referrers 303 to 429": (
        "faults.test_registries::test_ghcr_takes_no_long_patch",
        "faults.test_registries::test_ghcr_referrers_lead_to_a_rate_limit",
    ),
    "ECR: 201 for a chunk, Range that stands still, storage that refuses two kinds of credentials": (
        "faults.test_registries::test_there_and_back[Ecr]",
        "faults.test_registries::test_a_proxy_that_limits_requests[Ecr]",
        "faults.test_registries::test_ecr_range_that_stands_still_after_an_error",
    ),
    "Google Artifact Registry: no chunks": ("faults.test_registries::test_a_proxy_that_limits_requests[GoogleAr]",),
    "Docker Hub: tokens of another host, 429 with ratelimit headers": (
        "faults.test_registries::test_docker_hub_counts_pulls",
        "faults.test_registries::test_docker_hub_asks_for_patience",
    ),
    "Quay: chunks that get lost": ("faults.test_registries::test_a_proxy_that_limits_requests[Quay]",),
    "GitLab, Azure: Locations whole and relative": (
        "faults.test_registries::test_there_and_back[Gitlab]",
        "faults.test_registries::test_there_and_back[Acr]",
    ),
    "old registries: no Docker-Content-Digest": ("faults.test_registries::test_there_and_back[Silent]",),
    "no referrers API": (
        "faults.test_registries::test_registries_without_referrers",
        "faults.test_registries::test_forbidden_referrers_are_not_absent",
    ),
    # Bodies.
    "bytes that differ": (
        "faults.test_pulls::test_one_sentence[corrupt]",
        "faults.test_lines::test_one_byte_that_changes_on_the_way",
    ),
    "wrong sizes": ("faults.test_pulls::test_one_sentence[shorter]", "faults.test_pulls::test_one_sentence[longer]"),
    "wrong Content-Length": ("faults.test_pulls::test_right_in_the_end[length-too-long]",),
    "encodings": ("faults.test_pulls::test_one_sentence[encoded]",),
    "bodies without end": (
        "faults.test_pulls::test_one_sentence[endless]",
        "faults.test_pushes::test_push[endless-answer]",
    ),
    "bodies without length that stop": ("faults.test_pulls::test_right_in_the_end[cut-1000-without-length]",),
    "manifests above the limit": ("faults.test_pulls::test_one_sentence[endless-manifest]",),
    # Ranges.
    "200 to a Range, 416, another Content-Range": ("faults.test_pulls::test_ranges_that_are_not_kept",),
    # Status.
    "408, 429, 5xx": ("faults.test_pulls::test_right_in_the_end[blob-429]", "faults.test_pushes::test_push[send-503]"),
    "Retry-After in seconds, as a date, as nonsense, too long": (
        "faults.test_pushes::test_push[retry-after-0]",
        "faults.test_pulls::test_right_in_the_end[retry-after-date]",
        "faults.test_pulls::test_right_in_the_end[retry-after-garbage]",
        "faults.test_pulls::test_one_sentence[until-tomorrow]",
    ),
    "4xx that will not change": ("faults.test_pushes::test_a_4xx_that_will_not_change_is_not_tried_again",),
    "RateLimit headers": ("stores.registry.test_http::test_a_limit_that_is_announced_holds_the_host",),
    "413": ("faults.test_pushes::test_push[413-everywhere]",),
    # Lines.
    "cut in either direction": (
        "faults.test_lines::test_push_over_lines_that_are_cut_at_first",
        "faults.test_lines::test_pull_over_lines_that_are_cut_at_first",
        "faults.test_lines::test_a_line_that_never_lasts_brings_everything_in_the_end",
    ),
    "delays": ("faults.test_lines::test_delays", "faults.test_lines::test_a_delay_beyond_patience"),
    "slow servers": (
        "faults.test_lines::test_a_slow_line",
        "faults.test_lines::test_an_upload_that_is_hardly_taken",
        "faults.test_pulls::test_a_manifest_that_drips",
        "faults.test_pushes::test_a_slow_commit_is_waited_for",
    ),
    "servers that stop": (
        "faults.test_pushes::test_a_registry_that_stops_answering",
        "faults.test_pulls::test_a_registry_that_stops_in_the_middle",
    ),
    "refused, reset": (
        "faults.test_lines::test_a_registry_that_is_away_for_a_while",
        "faults.test_lines::test_connections_that_are_reset",
    ),
    # Proxies.
    "HTTP proxies, tunnels, SOCKS5": (
        "faults.test_proxies::test_http",
        "faults.test_proxies::test_tunnels[HttpProxy]",
        "faults.test_proxies::test_socks5[socks5h]",
        "faults.test_registries::test_where_there_is_a_proxy_everything_goes_through_it",
    ),
    "NO_PROXY, and the proxy of each host": (
        "faults.test_proxies::test_no_proxy",
        "faults.test_proxies::test_a_redirect_goes_through_the_proxy_of_the_host_it_leads_to",
    ),
    "proxies that refuse, are not there, or cannot be proxies": (
        "faults.test_proxy_messages::test_a_proxy_that_wants_other_credentials",
        "faults.test_proxy_messages::test_a_proxy_that_is_not_there",
        "faults.test_proxy_messages::test_schemes_that_are_not_known[socks]",
    ),
    # Upload sessions.
    "lost sessions": ("faults.test_pushes::test_push[session-unknown]",),
    "answers that get lost": ("faults.test_pushes::test_push[answer-of-put-lost]",),
    "200, 202, 204 for 201": (
        "faults.test_pushes::test_push[204-for-201]",
        "faults.test_pushes::test_push[202-without-blob]",
    ),
    "Location missing, wrong, on another host": (
        "faults.test_pushes::test_push[no-location]",
        "faults.test_pushes::test_push[location-nowhere]",
        "faults.test_pushes::test_upload_to_another_host",
    ),
    "mounts": (
        "faults.test_credentials::test_every_repository_has_a_token_of_its_own",
        "stores.registry.test_upload::test_mount_that_starts_an_upload_is_cancelled",
    ),
    "blobs that are said to be there": ("faults.test_pushes::test_push[head-lies]",),
    # Tokens.
    "expired in the middle": ("faults.test_credentials::test_tokens_that_expire_in_the_middle",),
    "Basic, Bearer, refresh tokens, helpers": (
        "faults.test_credentials::test_basic",
        "faults.test_credentials::test_bearer",
        "faults.test_credentials::test_refresh_token",
        "faults.test_credentials::test_credential_helper",
    ),
    "challenges of every form": ("stores.registry.test_auth::test_parse_challenges",),
    "token servers that are broken": ("faults.test_credentials::test_a_token_server_that_stays_broken",),
    # Requests that somebody else wants us to make.
    "redirects to storage, to nowhere, in circles": (
        "faults.test_pulls::test_storage_elsewhere_that_misbehaves",
        "faults.test_pulls::test_one_sentence[to-a-file]",
        "faults.test_pulls::test_one_sentence[circles]",
    ),
    "https to http, into this machine": (
        "stores.registry.test_auth::test_tls_is_never_left",
        "stores.registry.test_host::test_registries_cannot_point_into_this_machine",
    ),
    "realms": ("faults.test_credentials::test_realms_that_are_none",),
    "paging": ("stores.registry.test_download::test_paging", "stores.registry.test_download::test_garbage_in_listings"),
    # What was found from outside.
    "transfers that always break at the same place": (
        "faults.test_same_place::test_a_download_that_breaks_at_the_same_place_whatever_range_is_asked_for[stalls]",
        "faults.test_same_place::test_an_upload_that_breaks_at_the_same_place_and_loses_its_session",
    ),
    "tokens for few requests, and four threads": (
        "faults.test_short_tokens::test_four_threads_share_tokens_that_are_good_for_a_few_requests",
        "faults.test_short_tokens::test_tokens_that_are_revoked_before_the_body_of_an_upload_is_read",
        "faults.test_short_tokens::test_a_token_that_takes_long_for_one_repository_keeps_no_other_waiting",
    ),
    "HEAD of a blob refused": (
        "faults.test_heads::test_blobs_that_are_new_are_pushed",
        "faults.test_heads::test_blobs_that_are_known_are_not_sent_again",
    ),
    "TLS on loopback": (
        "faults.test_loopback_tls::test_that_a_registry_speaks_tls_is_found_out",
        "faults.test_loopback_tls::test_an_option_for_tls_means_tls_at_once[insecure]",
    ),
    "hosts that are no registries, logins that nobody asks for": (
        "faults.test_web_servers::test_a_login_to_a_web_server_is_none",
        "faults.test_web_servers::test_a_login_that_nobody_asks_for_is_stored_and_proves_nothing",
    ),
    "manifests altered on their way": (
        "faults.test_altered::test_a_manifest_that_is_altered_on_the_way_is_pushed_again",
    ),
    # The rest.
    "tags that move": ("faults.test_pulls::test_the_tag_moves_between_the_requests",),
    "warnings": (
        "faults.test_pulls::test_warnings_are_kept",
        "stores.registry.test_host::test_only_what_the_registry_itself_says_counts",
    ),
    "secrets in answers": ("faults.test_credentials::test_a_registry_that_repeats_secrets",),
}


@pytest.fixture
def way() -> None:
    """None: nothing is sent here."""


def cases(function: object) -> Iterator[str]:
    """The ids of all cases of a parametrised test, each word of them."""
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            values, ids = mark.args[1], mark.kwargs.get("ids")
            yield from map(str, map(ids, values) if callable(ids) else ids or values)


@pytest.mark.parametrize("what", COVERED)
def test_there_is_such_a_test(what: str) -> None:
    for name in COVERED[what]:
        module, _, function = name.partition("::")
        function, _, case = function.rstrip("]").partition("[")
        found = getattr(import_module(f"tests.{module}"), function)
        assert not case or case in set(cases(found))

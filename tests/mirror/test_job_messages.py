# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a job file, as its author reads it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ocibridge.mirror.jobs.yamlfile import YamlError

from .jobs import SYNC, load, problem, problems


def one(folder: Path, line: str) -> str:
    """The complaint about a line that is added to the entry, without the part that is always the same."""
    return problem(folder, SYNC + f"    {line}\n").removeprefix("job.yaml:")


def both(folder: Path, source: str, target: str, kind: str, rest: str = "") -> str:
    text = f"sync:\n  - source: {source}\n    target: {target}\n    type: {kind}\n{rest}"
    return problem(folder, text).removeprefix("job.yaml:")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("tag: {allow: [x]}", "5:5: sync[0].tag: this is no key of sync[0]; did you mean 'tags'?"),
        ("digesttags: true", "5:5: sync[0].digesttags: this is no key of sync[0]; did you mean 'digestTags'?"),
        (
            "tags: {permit: [x]}",
            "5:12: sync[0].tags.permit: this is no key of sync[0].tags; the keys here are allow, deny, semverRange",
        ),
        ("tags: {allow: [1.10]}", "5:20: sync[0].tags.allow[0]: 1.10 is a number in YAML; quote it: '1.10'"),
        ("tags: {allow: [3]}", "5:20: sync[0].tags.allow[0]: 3 is a number in YAML; quote it: '3'"),
        ("tags: {allow: [true]}", "5:20: sync[0].tags.allow[0]: true is a truth value in YAML; quote it: 'true'"),
        ("tags: {allow: [[a]]}", "5:20: sync[0].tags.allow[0]: a text is wanted, not a list; write one value"),
        ("tags: {allow: [{a: b}]}", "5:20: sync[0].tags.allow[0]: a text is wanted, not a mapping; write one value"),
        (
            "tags: {allow: x}",
            "5:19: sync[0].tags.allow: 'x' is no list; write [a, b], or one item a line with '- ' before it",
        ),
        (
            "tags: {deny: ['a(b']}",
            "5:19: sync[0].tags.deny[0]: 'a(b' is no regular expression (missing ), unterminated subpattern at "
            "position 1); it has to match the whole name, as in 'v\\d+.*'",
        ),
        (
            "tags: {deny: ['[[:alpha:]]+']}",
            "5:19: sync[0].tags.deny[0]: '[[:alpha:]]+' is no regular expression (Possible nested set at position 1); "
            "it has to match the whole name, as in 'v\\d+.*'",
        ),
        (
            f"tags: {{allow: ['{'a' * 513}']}}",
            "5:20: sync[0].tags.allow[0]: the expression has 513 characters; give at most 512, and several of them",
        ),
        (
            f"tags: {{allow: [{'a, ' * 201}]}}",
            "5:19: sync[0].tags.allow: this list has 201 items; give at most 200",
        ),
        (
            "tags: {semverRange: ['>=one']}",
            "5:26: sync[0].tags.semverRange[0]: '>=one' in '>=one' is no comparison of versions; write for example "
            "'>=1.2 <2', '^1.2', '~1.2.3', '1.x' or '1.2 - 1.4 || 2.x'",
        ),
        (
            "semverRange: ['>=1']",
            "5:5: sync[0].semverRange: it belongs into tags; write tags: {semverRange: [...]}",
        ),
        (
            "hooks: {pre: {type: exec}}",
            "5:5: sync[0].hooks: hooks run commands, which a job file never does here; run them before and after "
            "'ocibridge mirror run'",
        ),
        (
            "platform: linux/amd64",
            "5:5: sync[0].platform: one manifest out of an index would have another digest; write platforms: "
            "[linux/amd64], which keeps the index as it is",
        ),
        (
            "mediaTypes: []",
            "5:5: sync[0].mediaTypes: manifests of every media type are copied as they are; choose with "
            "models.artifactTypes",
        ),
        ("parallel: 3", "5:5: sync[0].parallel: it holds for the whole run; write it under defaults"),
        ("bandwidth: 3MiB", "5:5: sync[0].bandwidth: it holds for the whole run; write it under defaults"),
        (
            "platforms: [amd64]",
            "5:17: sync[0].platforms[0]: 'amd64' is no platform; write OS/ARCHITECTURE[/VARIANT], such as linux/amd64",
        ),
        ("referrers: yes", "5:16: sync[0].referrers: 'yes' is no truth value; write true or false"),
        ("interval: 60", "5:15: sync[0].interval: '60' is no duration; write for example 90s, 15m or 1h30m"),
        ("interval: 1d", "5:15: sync[0].interval: '1d' is no duration; write for example 90s, 15m or 1h30m"),
        ("interval: 10ms", "5:15: sync[0].interval: '10ms' is too short; give at least 1s"),
        (
            "schedule: hourly",
            "5:15: sync[0].schedule: 'hourly' is no cron line of five fields; write minute, hour, day of month, "
            "month and day of week, such as '15 3 * * *'",
        ),
        (
            "schedule: '@every 1h'",
            "5:15: sync[0].schedule: '@every' is no cron line; write it as an interval, such as interval: 1h",
        ),
        ("prune: true", "5:12: sync[0].prune: 'true' is no mapping; write its keys below it, one a line"),
        ("prune: {maxShare: 1.5}", "5:23: sync[0].prune.maxShare: '1.5' is too large; give at most 1.0"),
        ("prune: {maxShare: 0}", "5:23: sync[0].prune.maxShare: '0' is too small; give more than 0.0"),
        (
            "prune: {backup: 'old-{{.Ref.Tag}}'}",
            "5:21: sync[0].prune.backup: 'old-{{.Ref.Tag}}' makes no tag; write {tag} once where the tag shall be, "
            "such as 'old-{tag}'",
        ),
        (
            "backup: 'old {tag}'",
            "5:13: sync[0].backup: 'old {tag}' makes no tag; write {tag} once where the tag shall be, such as "
            "'old-{tag}'",
        ),
        ("ratelimit: {min: '5'}", "5:22: sync[0].ratelimit.min: '5' is no whole number; write one, without quotes"),
        ("also: [images]", "5:12: sync[0].also[0]: 'images' is not possible here; did you mean 'image'?"),
        (
            "dialect: oci",
            "5:14: sync[0].dialect: 'oci' is not possible here; write one of cnai, draft, modelpack",
        ),
        (
            "models: {size: {min: big}}",
            "5:26: sync[0].models.size.min: 'big' is no size; write for example 500MB, 50MiB or 4GiB",
        ),
        ("models: {size: {min: 2MiB, max: 1MiB}}", "5:20: sync[0].models.size: min is larger than max; exchange them"),
        (
            "models: {roles: [weights]}",
            "5:22: sync[0].models.roles[0]: 'weights' is not possible here; did you mean 'weight'?",
        ),
        (
            "referrerFilters: [{annotations: {a: b}, artifactType: x}]",
            "5:24: sync[0].referrerFilters[0].annotations: annotations cannot choose referrers; give their "
            "artifactType",
        ),
        (
            "referrerFilters: [{}]",
            "5:23: sync[0].referrerFilters[0].artifactType: it is missing; add it (artifact type of the referrers that "
            "are wanted)",
        ),
        (
            "repos: {allow: [a]}",
            "5:12: sync[0].repos: repositories are chosen only from a whole registry; use type: registry",
        ),
        (
            "{interval: 1h, schedule: '@daily'}".strip("{}").replace(", ", "\n    "),
            "6:15: sync[0].schedule: interval and schedule exclude each other; keep one of the two",
        ),
    ],
)
def test_one_line_that_is_wrong(line: str, complaint: str, tmp_path: Path) -> None:
    assert one(tmp_path, line) == complaint


@pytest.mark.parametrize(
    ("source", "target", "kind", "complaint"),
    [
        (
            "a.example/x",
            "b.example/x",
            "repo",
            "4:11: sync[0].type: 'repo' is not possible here; write one of registry, repository, image",
        ),
        (
            "a.example/x",
            "b.example/x",
            "reprository",
            "4:11: sync[0].type: 'reprository' is not possible here; did you mean 'repository'?",
        ),
        (
            "alpine",
            "b.example/x",
            "repository",
            "2:13: sync[0].source: the reference 'alpine' names no registry host; write HOST[:PORT]/REPOSITORY[:TAG], "
            "oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
        ),
        (
            "a.example/X",
            "b.example/x",
            "repository",
            "2:13: sync[0].source: the repository 'X' in 'a.example/X' is not valid; use lower-case letters, digits "
            "and single '.', '_', '-' or '/' between them",
        ),
        (
            "a.example/x:v1",
            "b.example/x",
            "repository",
            "2:13: sync[0].source: a repository has no tag or digest; leave it out, or use type: image for one tag",
        ),
        (
            "oci-archive:x.tar",
            "b.example/x",
            "repository",
            "2:13: sync[0].source: an archive cannot be kept in sync; name a layout folder (oci:DIR), or use "
            "'ocibridge copy'",
        ),
        (
            "a.example/x",
            "b.example/x",
            "registry",
            "2:13: sync[0].source: a registry is copied as a whole, and has no path here; write HOST[:PORT], and "
            "choose with repos.allow",
        ),
        ("a.example", "oci:x", "registry", "3:13: sync[0].target: this is no registry; write HOST[:PORT][/PREFIX]"),
        (
            f"a.example/x@sha256:{'0' * 64}",
            "b.example/x",
            "image",
            "3:13: sync[0].target: the image has no tag at either side; write HOST/REPOSITORY:TAG",
        ),
        (
            "a.example/x:v1",
            f"b.example/x@sha256:{'0' * 64}",
            "image",
            "3:13: sync[0].target: a target has no digest, as it gets that of the source; write its tag",
        ),
        (
            "'a.example/{{.Env}}'",
            "b.example/x",
            "repository",
            '2:13: sync[0].source: only the template {{env "NAME"}} is known here; a password in a file is named '
            "with passFile",
        ),
        (
            "'{{env \"OCIBRIDGE_NOT_SET\"}}/x'",
            "b.example/x",
            "repository",
            "2:13: sync[0].source: the environment variable OCIBRIDGE_NOT_SET is not set; set it, or take it out of "
            "the job",
        ),
        # A target in its source.
        (
            "a.example/x",
            "A.EXAMPLE/x",
            "repository",
            "3:13: sync[0].target: the target is the source itself; name another one",
        ),
        (
            "docker.io/alpine",
            "index.docker.io/library/alpine",
            "repository",
            "3:13: sync[0].target: the target is the source itself; name another one",
        ),
        (
            "a.example/x:v1",
            "a.example/x",
            "image",
            "3:13: sync[0].target: the target is the source itself; name another one",
        ),
        (
            "oci:x",
            "oci:./y/../x",
            "repository",
            "3:13: sync[0].target: the target is the source itself; name another one",
        ),
        (
            "a.example",
            "a.example",
            "registry",
            "3:13: sync[0].target: the target is the source itself; name another registry, or a prefix",
        ),
        (
            "a.example",
            "a.example/mirror",
            "registry",
            "3:13: sync[0].target: the target lies in the source, and would be copied into itself; add repos: "
            "{deny: ['mirror/.*']}",
        ),
    ],
)
def test_two_sides_that_are_wrong(source: str, target: str, kind: str, complaint: str, tmp_path: Path) -> None:
    assert both(tmp_path, source, target, kind) == complaint


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        (
            "tags: {allow: [x]}",
            "5:11: sync[0].tags: an image is one tag, there is nothing to choose; use type: repository",
        ),
        ("tagSets: []", "5:14: sync[0].tagSets: an image is one tag, there is nothing to choose; use type: repository"),
        (
            "prune: {enabled: true}",
            "5:12: sync[0].prune: there is nothing to prune for a single image; use type: repository",
        ),
    ],
)
def test_what_an_image_does_not_have(rest: str, complaint: str, tmp_path: Path) -> None:
    assert both(tmp_path, "a.example/x:v1", "b.example/x", "image", f"    {rest}\n") == complaint


@pytest.mark.parametrize("rest", ["repos: {deny: ['mirror/.*']}", "repos: {allow: ['models/.*']}"])
def test_a_target_below_the_source_that_is_left_out_is_no_loop(rest: str, tmp_path: Path) -> None:
    text = f"sync:\n  - {{source: a.example, target: a.example/mirror, type: registry, {rest}}}\n"
    assert len(load(tmp_path, text).entries) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "job.yaml:1:1: the file is empty; see the example in docs/mirror-job.md"),
        ("# nothing\n", "job.yaml:1:1: the file is empty; see the example in docs/mirror-job.md"),
        ("- a\n", "job.yaml:1:1: this is no mapping; write its keys below it, one a line"),
        ("sync:\n", "job.yaml:1:1: sync: it is missing; add it (what is copied where to)"),
        ("sync: []\n", "job.yaml:1:7: sync: there is nothing to copy; add an entry with source, target and type"),
        ("synk: []\n" + SYNC, "job.yaml:1:1: synk: this is no key of the file; did you mean 'sync'?"),
        ("version: 2\n" + SYNC, "job.yaml:1:10: version: this version of the job file is not known; write version: 1"),
        (
            "version: true\n" + SYNC,
            "job.yaml:1:10: version: this version of the job file is not known; write version: 1",
        ),
        ("defaults: {parallel: 0}\n" + SYNC, "job.yaml:1:22: defaults.parallel: '0' is too small; give at least 1"),
        ("defaults: {parallel: 1.5}\n" + SYNC, "job.yaml:1:22: defaults.parallel: '1.5' is no whole number; write one"),
        (
            "defaults: {parallel: 1001}\n" + SYNC,
            "job.yaml:1:22: defaults.parallel: '1001' is too large; give at most 1000",
        ),
        (
            "defaults: {blobLimit: 1}\n" + SYNC,
            "job.yaml:1:12: defaults.blobLimit: blobs of any size are copied; leave the key out, or choose with "
            "models.size",
        ),
        (
            "defaults: {bandwidth: 0}\n" + SYNC,
            "job.yaml:1:23: defaults.bandwidth: '0' is no rate; write for example 50MiB, which is 50 MiB a second",
        ),
        (
            "defaults: {interval: 1h, schedule: '@daily'}\n" + SYNC,
            "job.yaml:1:36: defaults.schedule: interval and schedule exclude each other; keep one of the two",
        ),
        (
            "sync:\n  - source: a.example/x\n    type: image\n",
            "job.yaml:2:5: sync[0].target: it is missing; add it (where to copy to: HOST[/PREFIX], HOST/REPOSITORY, "
            "or HOST/REPOSITORY:TAG)",
        ),
    ],
)
def test_a_file_that_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    assert problem(tmp_path, text) == complaint


def test_all_problems_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "defaults: {parallel: 0}\nsync:\n  - source: 1\n    typ: image\n  - target: b.example/x\n"
    assert problems(tmp_path, text) == [
        "job.yaml:1:22: defaults.parallel: '0' is too small; give at least 1",
        "job.yaml:3:5: sync[0].target: it is missing; add it (where to copy to: HOST[/PREFIX], HOST/REPOSITORY, or "
        "HOST/REPOSITORY:TAG)",
        "job.yaml:3:5: sync[0].type: it is missing; add it (registry, repository or image)",
        "job.yaml:3:13: sync[0].source: 1 is a number in YAML; quote it: '1'",
        "job.yaml:4:5: sync[0].typ: this is no key of sync[0]; did you mean 'type'?",
        "job.yaml:5:5: sync[1].source: it is missing; add it (where to copy from: HOST, HOST/REPOSITORY, or "
        "HOST/REPOSITORY:TAG)",
        "job.yaml:5:5: sync[1].type: it is missing; add it (registry, repository or image)",
    ]


def test_a_second_look_finds_all_references_that_are_wrong(tmp_path: Path) -> None:
    text = "sync:\n" + "  - {source: a.example/X, target: y, type: repository}\n" * 2
    assert [line.split(": ")[1] for line in problems(tmp_path, text)] == [
        "sync[0].source",
        "sync[0].target",
        "sync[1].source",
        "sync[1].target",
    ]


def test_the_error_survives_the_way_between_processes(tmp_path: Path) -> None:
    with pytest.raises(YamlError) as caught:
        load(tmp_path, "sync: []")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


def pairs(*entries: str) -> str:
    return "sync:\n" + "".join(f"  - {{{each}}}\n" for each in entries)


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        (
            "source: a.example/x, target: t.example/x, type: repository",
            "source: b.example/x, target: t.example/x, type: repository",
            "t.example/x",
        ),
        (
            "source: 'a.example/x:v1', target: 't.example/x', type: image",
            "source: 'b.example/x:v1', target: 't.example/x:v1', type: image",
            "t.example/x:v1",
        ),
        (
            "source: a.example/x, target: t.example/x, type: repository, tags: {allow: ['v.*']}",
            "source: 'b.example/x:v1', target: t.example/x, type: image",
            "t.example/x:v1",
        ),
        (
            "source: a.example, target: t.example/p, type: registry",
            "source: b.example, target: t.example/p, type: registry",
            "t.example/p",
        ),
        (
            "source: a.example, target: t.example/p, type: registry",
            "source: b.example/x, target: t.example/p/x, type: repository",
            "t.example/p/x",
        ),
        (
            "source: b.example/x, target: t.example/p/x, type: repository",
            "source: a.example, target: t.example/p, type: registry",
            "t.example/p/x",
        ),
        (
            "source: a.example/x, target: 'oci:l', type: repository",
            "source: b.example/x, target: 'oci:./l', type: repository",
            "/l",
        ),
    ],
)
def test_two_entries_that_write_one_place(first: str, second: str, place: str, tmp_path: Path) -> None:
    (warning,) = load(tmp_path, pairs(first, second)).warnings
    assert warning.startswith(f"{tmp_path}/job.yaml:3:")
    _, _, end = warning.partition("sync[1].target: sync[0] writes ")
    assert end.endswith(
        f"{place} from another source too; the one that comes first wins, so give them different targets or tags"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "source: a.example/x, target: t.example/x, type: repository",
            "source: b.example/x, target: t.example/y, type: repository",
        ),
        (
            "source: a.example/x, target: t.example/x, type: repository, tags: {allow: [a]}",
            "source: a.example/x, target: t.example/x, type: repository, tags: {allow: [b]}",
        ),
        (
            "source: a.example/x, target: t.example/x, type: repository, tags: {allow: ['v.*']}",
            "source: 'b.example/x:w1', target: t.example/x, type: image",
        ),
        (
            "source: 'a.example/x:1', target: t.example/x, type: image",
            "source: 'b.example/x:2', target: t.example/x, type: image",
        ),
        (
            "source: a.example, target: t.example/p, type: registry",
            "source: b.example/x, target: t.example/q/x, type: repository",
        ),
        (
            "source: a.example, target: t.example/p, type: registry",
            "source: a.example/x, target: t.example/p/x, type: repository",
        ),
        (
            "source: a.example, target: t.example/p, type: registry, repos: {deny: [x]}",
            "source: b.example/x, target: t.example/p/x, type: repository",
        ),
        (
            "source: a.example, target: t.example, type: registry",
            "source: b.example/x, target: 'oci:l', type: repository",
        ),
    ],
)
def test_two_entries_that_do_not_meet(first: str, second: str, tmp_path: Path) -> None:
    assert load(tmp_path, pairs(first, second)).warnings == ()

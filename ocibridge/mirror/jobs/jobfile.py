# SPDX-License-Identifier: Apache-2.0
"""The job file as it is written. Its words are those of regsync where regsync has the word."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from ...dialects.registry import dialect_names
from ...errors import OcibridgeError
from ...model import Role
from ...oci import RegistryReference, parse_reference
from ...operations.companions import companion_names
from ...options import parse_rate, parse_size
from ...paths import show
from .complaints import JobSection, OneOf, complaint
from .schedule import parse_cron, parse_duration
from .semver import MAX_RANGE, Range

MAX_PATTERN = 512
"""Characters of one regular expression."""
MAX_PATTERNS = 200
"""Expressions, ranges or sets in one list."""

_TEMPLATE = re.compile(r'\{\{-?\s*env\s+(?:"([A-Za-z_]\w*)"|`([A-Za-z_]\w*)`)\s*-?\}\}', re.ASCII)
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?", re.ASCII)
_HOST = "the host of a registry, with its port if it has one"

Value = TypeVar("Value")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return value


def _parsed(parse: Callable[[str], Value], *, numbers: bool = False) -> Callable[[Any], Value]:
    """A validator from a parser that raises `ValueError`; `numbers` lets it read the digits of a bare number too."""

    def read(value: Any) -> Value:
        if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        text = _text(value)
        try:
            return parse(text)
        except ValueError as exc:
            raise complaint(str(exc)) from None

    return read


def expand(text: str) -> str:
    """Put environment variables where the templates `{{env "NAME"}}` are.

    Raises:
        ValueError: a variable is not set, or there is another template.
    """
    if "{{" in _TEMPLATE.sub("", text):
        raise ValueError('only the template {{env "NAME"}} is known here; a password in a file is named with passFile')

    def value_of(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the environment variable {name} is not set; set it, or take it out of the job")
        return value

    return _TEMPLATE.sub(value_of, text)


def _regex(text: str) -> re.Pattern[str]:
    if len(text) > MAX_PATTERN:
        raise ValueError(f"the expression has {len(text)} characters; give at most {MAX_PATTERN}, and several of them")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError, Warning) as exc:
        raise ValueError(
            f"{show(text)} is no regular expression ({exc}); it has to match the whole name, as in 'v\\d+.*'"
        ) from None


def _duration(text: str) -> timedelta:
    duration = parse_duration(text)
    if duration < timedelta(seconds=1):
        raise ValueError(f"{show(text)} is too short; give at least 1s")
    return duration


def _platform(text: str) -> str:
    if not _PLATFORM.fullmatch(text):
        raise ValueError(f"{show(text)} is no platform; write OS/ARCHITECTURE[/VARIANT], such as linux/amd64")
    return text


def _backup(text: str) -> str:
    try:
        if text.count("{tag}") != 1:
            raise ValueError
        parse_reference(f"localhost/x:{text.replace('{tag}', 'x')}")
    except (ValueError, OcibridgeError):
        raise ValueError(
            f"{show(text)} makes no tag; write {{tag}} once where the tag shall be, such as 'old-{{tag}}'"
        ) from None
    return text


def _host(text: str) -> str:
    host = expand(text)
    try:
        reference = parse_reference(f"{host}/x/x")
    except OcibridgeError:
        reference = None
    if "/" in host or not isinstance(reference, RegistryReference):
        raise ValueError("this is no host of a registry; write HOST[:PORT] without https:// and without a path")
    return host


def _version(value: Any) -> Any:
    if value is not True and value == 1:
        return 1
    raise complaint("this version of the job file is not known; write version: 1")


Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]


Template = Annotated[str, PlainValidator(_parsed(expand)), WithJsonSchema({"type": "string", "minLength": 1})]
Secret = Annotated[
    SecretStr,
    PlainValidator(_parsed(lambda text: SecretStr(expand(text)))),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
HostName = Annotated[str, PlainValidator(_parsed(_host)), WithJsonSchema({"type": "string", "minLength": 1})]
Regex = Annotated[
    re.Pattern[str],
    PlainValidator(_parsed(_regex)),
    WithJsonSchema({"type": "string", "format": "regex", "maxLength": MAX_PATTERN}),
]
VersionRange = Annotated[
    Range, PlainValidator(_parsed(Range.parse)), WithJsonSchema({"type": "string", "maxLength": MAX_RANGE})
]
Duration = Annotated[
    timedelta,
    PlainValidator(_parsed(_duration, numbers=True)),
    WithJsonSchema({"type": "string", "pattern": r"^([0-9.]+(ns|us|µs|ms|s|m|h))+$"}),
]
Size = Annotated[
    int,
    PlainValidator(_parsed(parse_size, numbers=True)),
    WithJsonSchema({"type": ["string", "integer"], "pattern": "^[0-9.]+ ?([KMGTP]i?)?B?$"}),
]
Rate = Annotated[
    int,
    PlainValidator(_parsed(parse_rate, numbers=True)),
    WithJsonSchema({"type": ["string", "integer"], "pattern": "^[0-9.]+ ?([KMGTP]i?)?B?(/s)?$"}),
]
Platform = Annotated[
    str, PlainValidator(_parsed(_platform)), WithJsonSchema({"type": "string", "pattern": f"^{_PLATFORM.pattern}$"})
]
Backup = Annotated[
    str, PlainValidator(_parsed(_backup)), WithJsonSchema({"type": "string", "pattern": r"^[^{}]*\{tag\}[^{}]*$"})
]
CronLine = Annotated[str, PlainValidator(_parsed(parse_cron)), WithJsonSchema({"type": "string"})]
DialectName = Annotated[str, OneOf(dialect_names)]
RoleName = Annotated[str, OneOf(lambda: [each.value for each in Role])]
CompanionName = Annotated[str, OneOf(companion_names)]

Patterns = Annotated[tuple[Regex, ...], Field(max_length=MAX_PATTERNS)]


class NameFilter(JobSection):
    """Filter for names. An expression has to match the whole name."""

    allow: Patterns = Field((), description="regular expressions, one of which has to match; none: all names")
    deny: Patterns = Field((), description="regular expressions, none of which may match")


class TagFilter(NameFilter):
    """Filter for tags; a tag has to pass all three."""

    semver_range: Annotated[tuple[VersionRange, ...], Field(max_length=MAX_PATTERNS)] = Field(
        (), description="ranges of versions, one of which has to contain the tag, such as '>=1.2 <2'"
    )


class SizeRange(JobSection):
    """A range of sizes."""

    min: Size | None = Field(None, description="at least this size, such as 1GiB")
    max: Size | None = Field(None, description="at most this size, such as 100GiB")


class ModelFilter(JobSection):
    """Filter for models; a model has to pass all given keys."""

    artifact_types: tuple[Text, ...] | None = Field(None, description="artifact types of the manifest")
    dialects: tuple[DialectName, ...] | None = Field(None, description="dialects of the manifest")
    roles: tuple[RoleName, ...] | None = Field(None, description="roles, of one of which it has at least a layer")
    size: SizeRange | None = Field(None, description="size of all its blobs")
    licences: tuple[Text, ...] | None = Field(None, description="licences: all that the model names have to be here")
    architectures: tuple[Text, ...] | None = Field(None, description="architectures, as in the model's config")


class RateLimit(JobSection):
    """Limit for remaining requests of the source."""

    min: Annotated[int, Field(ge=1)] | None = Field(None, description="requests that are left, below which to wait")
    retry: Duration | None = Field(None, description="how long to wait then before asking again; 5m if not given")


class Prune(JobSection):
    """Deleting at the target what the job does not bring any more."""

    enabled: bool = Field(False, description="whether to prune at all; false if not given")
    dry_run: bool = Field(True, description="whether to say only what would be deleted; true if not given")
    max_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.1, description="share of a repository's tags above which nothing is deleted; 0.1 if not given"
    )
    backup: Backup | None = Field(None, description="tag that keeps what is deleted, such as 'pruned-{tag}'")
    tags: NameFilter | None = Field(
        None, description="tags that may be deleted; those that the entry copies if not given"
    )


class ReferrerFilter(JobSection):
    """Filter for referrers."""

    artifact_type: Text = Field(description="artifact type of the referrers that are wanted")
    refused: ClassVar[dict[str, str]] = {
        "annotations": "annotations cannot choose referrers; give their artifactType",
    }


_NO_HOOKS = "hooks run commands, which a job file never does here; run them before and after 'ocibridge mirror run'"


class Common(JobSection):
    """Keys of an entry, which `defaults` has for all entries."""

    platforms: tuple[Platform, ...] | None = Field(None, description="platforms of an index to copy; all if not given")
    referrers: bool = Field(True, description="copy signatures and other referrers; true if not given")
    referrer_filters: tuple[ReferrerFilter, ...] | None = Field(None, description="which referrers; all if not given")
    digest_tags: bool = Field(True, description="copy the tags sha256-HEX… of what is copied; true if not given")
    fast_check: bool = Field(False, description="look no further where source and target have the same digest")
    force_recursive: bool = Field(False, description="ask the target for every blob, whatever was there before")
    backup: Backup | None = Field(None, description="tag that keeps what is replaced, such as 'old-{tag}'")
    interval: Duration | None = Field(None, description="how often, such as 6h; not together with schedule")
    schedule: CronLine | None = Field(None, description="cron line of five fields, such as '15 3 * * *'")
    ratelimit: RateLimit | None = Field(None, description="when to wait because the source grants few requests")
    models: ModelFilter | None = Field(None, description="which models to copy; whatever is there if not given")
    also: tuple[CompanionName, ...] | None = Field(None, description="companions to make at the target")
    dialect: DialectName | None = Field(
        None, description="dialect to write; the manifest is copied as it is if not given"
    )
    prune: Prune | None = Field(None, description="deleting what the job does not bring any more")
    refused: ClassVar[dict[str, str]] = {
        "hooks": _NO_HOOKS,
        "platform": "one manifest out of an index would have another digest; write platforms: [linux/amd64], "
        "which keeps the index as it is",
        "mediaTypes": "manifests of every media type are copied as they are; choose with models.artifactTypes",
        "includeExternal": "layers that lie outside of a registry are never fetched; leave the key out",
        "referrerSource": "referrers are read where the artifact is; leave the key out",
        "referrerTarget": "referrers are written where the artifact is; leave the key out",
        "referrerSlow": "registries without referrers API are served by their fallback tags; leave the key out",
        "semverRange": "it belongs into tags; write tags: {semverRange: [...]}",
    }


class Defaults(Common):
    """Defaults for all entries, which each entry can override."""

    parallel: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="tags copied at the same time")
    bandwidth: Rate | None = Field(
        None, description="bytes a second that each process of the run may move, such as 50MiB"
    )
    refused: ClassVar[dict[str, str]] = {
        **Common.refused,
        "blobLimit": "blobs of any size are copied; leave the key out, or choose with models.size",
        "cacheCount": "there is nothing to set about caches; leave the key out",
        "cacheTime": "there is nothing to set about caches; leave the key out",
        "skipDockerConfig": "stored logins are used where creds have none; leave the key out, "
        "or point DOCKER_CONFIG to an empty folder",
        "userAgent": "the user agent cannot be set; leave the key out",
    }


class Sync(Common):
    """One entry: what is copied where to."""

    source: Template = Field(description="where to copy from: HOST, HOST/REPOSITORY, or HOST/REPOSITORY:TAG")
    target: Template = Field(description="where to copy to: HOST[/PREFIX], HOST/REPOSITORY, or HOST/REPOSITORY:TAG")
    type: Literal["registry", "repository", "image"] = Field(description="registry, repository or image")
    tags: TagFilter | None = Field(None, description="which tags; all if not given")
    tag_sets: Annotated[tuple[TagFilter, ...], Field(max_length=MAX_PATTERNS)] | None = Field(
        None, description="several filters: a tag that passes one of them is copied"
    )
    repos: NameFilter | None = Field(None, description="which repositories of a registry; all if not given")
    refused: ClassVar[dict[str, str]] = {
        **Common.refused,
        "parallel": "it holds for the whole run; write it under defaults",
        "bandwidth": "it holds for the whole run; write it under defaults",
    }


class Creds(JobSection):
    """Login and connection settings of a registry."""

    secret: ClassVar[bool] = True

    registry: HostName = Field(description=_HOST)
    user: Template | None = Field(None, repr=False, description="user name; stored logins are used if not given")
    password: Secret | None = Field(None, alias="pass", description="password or token, best as '{{env \"NAME\"}}'")
    pass_file: Template | None = Field(None, description="file that holds the password")
    tls: Literal["enabled", "insecure", "disabled"] | None = Field(
        None, description="insecure does not check certificates, disabled is plain HTTP"
    )
    regcert: Template | None = Field(None, description="PEM file of the authorities to trust")
    client_cert: Template | None = Field(None, description="PEM file of the client certificate")
    client_key: Template | None = Field(None, description="PEM file of its key")
    req_concurrent: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="requests to this host at the same time"
    )
    req_per_sec: Annotated[float, Field(ge=0.001, le=1_000_000)] | None = Field(
        None, description="requests to this host a second"
    )
    refused: ClassVar[dict[str, str]] = {
        "hostname": "a registry is reached by its own name; write that into source and target",
        "token": "tokens are asked for as they are needed; give user and pass",
        "credHelper": "credential helpers are read from docker's config.json; enter it there under credHelpers",
        "credExpire": "credential helpers are asked once a run; leave the key out",
        "credHost": "the login of a host is stored under its own name; leave the key out",
        "pathPrefix": "repositories are called by their whole name; write it into source and target",
        "mirrors": "what is read is what source says; name the mirror there",
        "priority": "there are no mirrors to choose from; leave the key out",
        "repoAuth": "each repository gets its own token anyway; leave the key out",
        "api": "every registry is spoken to by the OCI distribution API; leave the key out",
        "apiOpts": "the referrers API is tried first, then its fallback tag; leave the key out",
        "blobChunk": "how blobs are uploaded is not to be set; leave the key out",
        "blobMax": "how blobs are uploaded is not to be set; leave the key out",
        "scheme": "it is called tls; write tls: disabled for plain HTTP",
    }


def _not_empty(entries: tuple[Sync, ...]) -> tuple[Sync, ...]:
    if not entries:
        raise complaint("there is nothing to copy; add an entry with source, target and type")
    return entries


class JobFile(JobSection):
    """A mirror job."""

    model_config = ConfigDict(title="Mirror job", json_schema_extra={"patternProperties": {"^x-": True}})

    version: Annotated[Literal[1], BeforeValidator(_version)] = Field(1, description="of this file's format")
    creds: tuple[Creds, ...] = Field((), description="registries that need more than a stored login")
    defaults: Defaults = Field(default_factory=Defaults, description="what holds for all entries")
    sync: Annotated[tuple[Sync, ...], AfterValidator(_not_empty)] = Field(
        description="what is copied where to", json_schema_extra={"minItems": 1}
    )

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, value: Any) -> Any:
        """Keys that begin with `x-` are for the author: a place for anchors."""
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if not str(key).startswith("x-")}
        return value


PartT = TypeVar("PartT", bound=JobSection)


def merged(own: PartT, default: JobSection) -> PartT:
    """`own`, and what it does not say taken from `default`; mappings in it are merged in the same way."""
    update: dict[str, Any] = {}
    for name in default.model_fields_set & set(type(own).model_fields):
        theirs, ours = getattr(default, name), getattr(own, name)
        if name not in own.model_fields_set:
            update[name] = theirs
        elif isinstance(ours, JobSection) and isinstance(theirs, JobSection):
            update[name] = merged(ours, theirs)
    return own.model_copy(update=update)

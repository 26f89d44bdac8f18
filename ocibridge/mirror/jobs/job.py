# SPDX-License-Identifier: Apache-2.0
"""A mirror job: a job file, read, checked, and with the defaults in place."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from pydantic import ValidationError

from ...errors import InvalidReference, OcibridgeError, reading
from ...oci import Reference, RegistryReference, sha256_digest
from ...oci.reference import DEFAULT_TAG
from ...stores.registry.options import RateLimits, RegistryOptions
from .complaints import complaints
from .entry import SyncEntry
from .jobcheck import conflicts, loop
from .jobfile import Creds, JobFile, Sync, merged
from .places import RegistryPlace, canonical_host, parse_place, parse_side
from .yamlfile import Key, YamlError, YamlFile, parse_yaml, read_yaml

RETRY = timedelta(minutes=5)
"""How long to wait where a source grants few requests, unless the job says otherwise."""
_MAX_PASSWORD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        path: Of the job file, as it was given.
        digest: Of its bytes.
        entries: What is copied where to, in the order of the file.
        parallel: Tags that are copied at the same time, or None where the job does not say.
        bandwidth: Bytes a second that the whole run may move, or None.
        warnings: What is odd about it, `FILE:LINE:COLUMN: …` each.
        text: The bytes of the file, with which `parse` makes the same job in another process.
    """

    path: Path
    digest: str
    entries: tuple[SyncEntry, ...]
    parallel: int | None = None
    bandwidth: int | None = None
    warnings: tuple[str, ...] = ()
    text: bytes = field(default=b"", repr=False)
    _options: dict[str, RegistryOptions] = field(default_factory=dict, repr=False)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Job:
        """Read a job file.

        Raises:
            SourceError: it cannot be read.
            LimitError: it is too large.
            YamlError: something in it is wrong; every problem is in the message, each on a line of its own.

        Example:
            >>> Job.load("job.yaml").entries[0].sync.type  # doctest: +SKIP
            'repository'
        """
        return Job._of(read_yaml(Path(path)))

    @staticmethod
    def parse(text: bytes, path: str | os.PathLike[str]) -> Job:
        """The job that is written in `text`, as if that were in the file `path`. See `load`."""
        return Job._of(parse_yaml(Path(path), text))

    @staticmethod
    def _of(file: YamlFile) -> Job:
        try:
            written = JobFile.model_validate(file.value)
        except ValidationError as exc:
            raise YamlError(complaints(exc, file, JobFile)) from None
        return _Loading(file, written).job()

    def options_for(self, host: str) -> RegistryOptions:
        """Return the options of a registry, from `creds` and `ratelimit`."""
        return self._options.get(canonical_host(host), RegistryOptions())


class _Loading:
    """From what is written to what is meant; gathers all problems before it gives up."""

    def __init__(self, file: YamlFile, written: JobFile) -> None:
        self._file = file
        self._written = written
        self._folder = file.path.parent
        self._problems: list[str] = []
        self._warnings: list[str] = []

    def job(self) -> Job:
        entries = [self._entry(number, own) for number, own in enumerate(self._written.sync)]
        options = self._options()
        found = [entry for entry in entries if entry is not None]
        if self._problems:
            raise YamlError(self._problems)
        for entry in found:
            if what := loop(entry):
                self._problem(("sync", entry.number, "target"), what)
        if self._problems:
            raise YamlError(self._problems)
        for number, what in conflicts(found):
            self._warnings.append(self._file.at(("sync", number, "target")) + what)
        return Job(
            path=self._file.path,
            digest=sha256_digest(self._file.data),
            entries=tuple(found),
            parallel=self._written.defaults.parallel,
            bandwidth=self._written.defaults.bandwidth,
            warnings=tuple(self._warnings),
            text=self._file.data,
            _options=self._with_rate_limits(options, found),
        )

    def _problem(self, key: Key, what: str) -> None:
        self._problems.append(self._file.at(key) + what)

    # Entries.

    def _entry(self, number: int, own: Sync) -> SyncEntry | None:
        before = len(self._problems)
        sync = merged(own, self._written.defaults)
        self._check_keys(number, sync, own)
        sides = self._sides(number, sync)
        if sides is None or len(self._problems) > before:
            return None
        changes: dict[str, object] = {
            "source": str(sides[0]),
            "target": str(sides[1]),
            "also": tuple(dict.fromkeys(sync.also or ())),
        }
        if own.interval is not None or own.schedule is not None:
            # An entry that has one of the two takes neither from the defaults.
            changes |= {"interval": own.interval, "schedule": own.schedule}
        return SyncEntry(number, *sides, sync.model_copy(update=changes))

    def _check_keys(self, number: int, sync: Sync, own: Sync) -> None:
        """Report keys that exclude each other."""
        at: Key = ("sync", number)
        if own.interval is not None and own.schedule is not None:
            self._problem((*at, "schedule"), "interval and schedule exclude each other; keep one of the two")
        defaults = self._written.defaults
        if number == 0 and defaults.interval is not None and defaults.schedule is not None:
            self._problem(("defaults", "schedule"), "interval and schedule exclude each other; keep one of the two")
        if sync.type == "image":
            for name in ("tags", "tagSets"):
                if (*at, name) in self._file.places:
                    self._problem((*at, name), "an image is one tag, there is nothing to choose; use type: repository")
            if own.prune and own.prune.enabled:
                self._problem((*at, "prune"), "there is nothing to prune for a single image; use type: repository")
        if sync.type != "registry" and sync.repos is not None:
            self._problem((*at, "repos"), "repositories are chosen only from a whole registry; use type: registry")
        size = sync.models.size if sync.models else None
        if size and size.min is not None and size.max is not None and size.min > size.max:
            self._problem((*at, "models", "size"), "min is larger than max; exchange them")

    def _sides(self, number: int, sync: Sync) -> tuple[Reference | RegistryPlace, Reference | RegistryPlace] | None:
        if sync.type == "registry":
            hosts = [self._place(number, "source", sync.source), self._place(number, "target", sync.target)]
            return (hosts[0], hosts[1]) if hosts[0] and hosts[1] else None
        source, target = self._side(number, "source", sync.source), self._side(number, "target", sync.target)
        if source is None or target is None:
            return None
        at: Key = ("sync", number)
        if sync.type == "repository":
            for name, side in (("source", source), ("target", target)):
                if side.tag or side.digest:
                    self._problem(
                        (*at, name), "a repository has no tag or digest; leave it out, or use type: image for one tag"
                    )
            return source, target
        if not (source.tag or source.digest):
            source = source.at(DEFAULT_TAG)
        if target.digest:
            self._problem((*at, "target"), "a target has no digest, as it gets that of the source; write its tag")
        if not (target.tag or source.tag):
            self._problem((*at, "target"), "the image has no tag at either side; write HOST/REPOSITORY:TAG")
        return source, target.at(target.tag or source.tag, target.digest)

    def _place(self, number: int, name: str, text: str) -> RegistryPlace | None:
        try:
            return parse_place(text, prefix=name == "target")
        except InvalidReference as exc:
            self._problem(("sync", number, name), str(exc))
            return None

    def _side(self, number: int, name: str, text: str) -> Reference | None:
        try:
            return parse_side(text, self._folder)
        except InvalidReference as exc:
            self._problem(("sync", number, name), str(exc))
            return None

    # Registries.

    def _options(self) -> dict[str, RegistryOptions]:
        found: dict[str, RegistryOptions] = {}
        for number, creds in enumerate(self._written.creds):
            at: Key = ("creds", number)
            host = canonical_host(creds.registry)
            if host in found:
                self._problem((*at, "registry"), "an earlier entry of creds is for this registry; keep one of the two")
            found[host] = RegistryOptions(
                plain_http=None if creds.tls is None else creds.tls == "disabled",
                insecure=creds.tls == "insecure",
                ca_file=self._pem(at, "regcert", creds.regcert),
                cert_file=self._pem(at, "clientCert", creds.client_cert),
                key_file=self._pem(at, "clientKey", creds.client_key),
                username=creds.user,
                password=self._password(at, creds),
                rate_limits=RateLimits(concurrent=creds.req_concurrent, per_second=creds.req_per_sec),
            )
            if creds.client_key and not creds.client_cert:
                self._problem((*at, "clientKey"), "a key needs its certificate; add clientCert")
        return found

    def _pem(self, at: Key, name: str, value: str | None) -> Path | None:
        if value is None:
            return None
        if "-----BEGIN" in value or "\n" in value:
            self._problem((*at, name), "the name of a PEM file is wanted, not what is in it; put it into a file")
            return None
        path = self._folder / value
        if not path.is_file():
            self._problem((*at, name), "there is no such file; check the name, which is taken from the job's folder")
        return path

    def _password(self, at: Key, creds: Creds) -> str | None:
        raw = self._file.value["creds"][at[-1]]
        if creds.password is not None and creds.pass_file is not None:
            self._problem((*at, "passFile"), "pass and passFile exclude each other; keep one of the two")
            return None
        password = creds.password.get_secret_value() if creds.password is not None else None
        if password is not None and "{{" not in raw["pass"]:
            self._warnings.append(
                self._file.at((*at, "pass")) + "a password is written here for all to read; "
                "write pass: '{{env \"NAME\"}}', or passFile with the name of a file"
            )
        if creds.pass_file is not None:
            password = self._read_password(at, creds.pass_file)
            if password is None:
                return None
        if (creds.user is None) != (password is None):
            self._problem(at, "a login needs both, user and pass; add what is missing, or leave out the other")
        elif creds.user is not None and (":" in creds.user or not creds.user.isprintable() or not creds.user):
            self._problem((*at, "user"), "the user name is empty, or has a colon or control character; check it")
        elif password == "":
            self._problem((*at, "pass" if creds.pass_file is None else "passFile"), "the password is empty; check it")
        return password

    def _read_password(self, at: Key, name: str) -> str | None:
        path = self._folder / name
        try:
            with reading(path), open(path, "rb") as file:
                data = file.read(_MAX_PASSWORD + 1)
            text = data.decode().rstrip("\r\n")
        except (OcibridgeError, ValueError):
            text = None
        if text is None or len(data) > _MAX_PASSWORD or "\n" in text:
            self._problem(
                (*at, "passFile"),
                "there is no readable file with one line of text; check the name, which is taken from the job's folder",
            )
            return None
        return text

    @staticmethod
    def _with_rate_limits(options: dict[str, RegistryOptions], entries: list[SyncEntry]) -> dict[str, RegistryOptions]:
        """Apply `ratelimit` to the sources; of several entries for one source, the strictest counts."""
        found = dict(options)
        for entry in entries:
            limit = entry.sync.ratelimit
            if limit is None or limit.min is None or not isinstance(entry.source, RegistryPlace | RegistryReference):
                continue
            host = canonical_host(entry.source.host)
            before = found.get(host, RegistryOptions())
            wait = (limit.retry or RETRY).total_seconds()
            if before.rate_limits.remaining_min is not None:
                wait = max(wait, before.rate_limits.remaining_wait)
            least = max(limit.min, before.rate_limits.remaining_min or 0)
            found[host] = replace(
                before, rate_limits=replace(before.rate_limits, remaining_min=least, remaining_wait=wait)
            )
        return found

# SPDX-License-Identifier: Apache-2.0
"""The command lines of the tools that are compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .inputs import Blob

Command = tuple[str, ...]

AUTHORITIES = "ca.crt"
"""Name of the PEM file in a folder of trusted authorities, as skopeo looks for it."""
# One POST and one PUT a blob, one after the other.
CURL_PUSH = """
uploads="$1/v2/$2/blobs/uploads/"
ca=$3
shift 3
while [ $# -gt 0 ]; do
    location=$(curl -sS ${ca:+--cacert "$ca"} -o /dev/null -D - -X POST "$uploads" -H "Content-Length: 0" |
        tr -d '\\r' | sed -n 's/^[Ll]ocation: //p')
    curl -sS ${ca:+--cacert "$ca"} --fail -o /dev/null -X PUT -H "Content-Type: application/octet-stream" -T "$1" \\
        "$location&digest=$2"
    shift 2
done
"""
# What a pull promises beyond a download, by C programs alone: the bytes have the digest, and are on the disk.
CURL_THEN = """
curl -sS --fail -o "$3" "$1"
[ "$(openssl dgst -sha256 -r "$3" | cut -d " " -f 1)" = "$2" ]
sync "$3"
"""
CURL_BESIDE = """
found=$(curl -sS --fail "$1" | tee "$3" | openssl dgst -sha256 -r)
[ "${found%% *}" = "$2" ]
sync "$3"
"""
# From one registry to the other with nothing in between; the size is not known to the second curl, which sends chunks.
CURL_PIPE = """
location=$(curl -sS -o /dev/null -D - -X POST "$2" -H "Content-Length: 0" |
    tr -d '\\r' | sed -n 's/^[Ll]ocation: //p')
curl -sS --fail "$1" |
    curl -sS --fail -o /dev/null -X PUT -H "Content-Type: application/octet-stream" -T - "$location&digest=$3"
"""
ORAS = """
import sys, oras.client
client = oras.client.OrasClient(insecure=True)
if sys.argv[1] == "push":
    client.push(target=sys.argv[2], files=sys.argv[3:], disable_path_validation=True)
else:
    client.pull(target=sys.argv[2], outdir=sys.argv[3])
"""


def ocibridge(*arguments: str) -> Command:
    """The command as it is installed beside this Python."""
    return (str(Path(sys.executable).with_name("ocibridge")), *arguments)


def ocibridge_push(source: Path, target: str, *options: str) -> Command:
    """A push without progress."""
    return ocibridge("push", "--quiet", str(source), target, *options)


def ocibridge_pull(source: str, dest: Path, *options: str) -> Command:
    """A pull without progress."""
    return ocibridge("pull", "--quiet", source, str(dest), *options)


def https(trust: Path | None) -> Command:
    """The options of ocibridge for a registry that speaks HTTPS; those of the other tools are in their commands.

    Args:
        trust: Folder with the certificate authorities to trust, in `AUTHORITIES`; None for plain HTTP.
    """
    return ("--no-plain-http", "--ca-file", str(trust / AUTHORITIES)) if trust else ()


def _address(host: str, trust: Path | None) -> str:
    return f"{'https' if trust else 'http'}://{host}"


def curl_push(host: str, repository: str, blobs: Sequence[Blob], trust: Path | None = None) -> Command:
    """The blobs alone: curl is told their digests, and sends neither config nor manifest."""
    pairs = [text for blob in blobs for text in (str(blob.path), blob.digest)]
    authorities = str(trust / AUTHORITIES) if trust else ""
    return ("sh", "-ec", CURL_PUSH, "sh", _address(host, trust), repository, authorities, *pairs)


def curl_pull(
    host: str, repository: str, blobs: Sequence[Blob], folder: Path, *options: str, trust: Path | None = None
) -> Command:
    """The blobs alone, unverified."""
    pairs = [
        text
        for number, blob in enumerate(blobs)
        for text in (
            "-o",
            str(folder / f"blob-{number}"),
            f"{_address(host, trust)}/v2/{repository}/blobs/{blob.digest}",
        )
    ]
    authorities = ("--cacert", str(trust / AUTHORITIES)) if trust else ()
    return ("curl", "-sS", "--fail", *authorities, *options, *pairs)


def curl_verified(script: str, host: str, repository: str, blob: Blob, folder: Path) -> Command:
    """One blob, hashed and flushed to the disk: `CURL_THEN` or `CURL_BESIDE`."""
    url = f"http://{host}/v2/{repository}/blobs/{blob.digest}"
    return ("sh", "-ec", script, "sh", url, blob.digest.removeprefix("sha256:"), str(folder / "blob"))


def curl_copy(source: str, target: str, repository: str, digest: str) -> Command:
    """One blob from one registry to the other, of which curl is told the digest."""
    url, uploads = f"http://{source}/v2/{repository}/blobs/{digest}", f"http://{target}/v2/{repository}/blobs/uploads/"
    return ("sh", "-ec", CURL_PIPE, "sh", url, uploads, digest)


def ocibridge_copy(source: str, target: str) -> Command:
    """A copy without progress."""
    return ocibridge("copy", "--quiet", source, target)


def ocibridge_mirror(job: Path, *options: str) -> Command:
    """A run of a job without progress."""
    return ocibridge("mirror", "run", "--quiet", str(job), *options)


def skopeo_push(layout: Path, host: str, repository: str, trust: Path | None = None) -> Command:
    """The artifact of a layout."""
    target = f"docker://{host}/{repository}:v1"
    return ("skopeo", "copy", "--preserve-digests", _skopeo("dest", trust), f"oci:{layout}:v1", target)


def skopeo_pull(host: str, repository: str, layout: Path, trust: Path | None = None) -> Command:
    """An artifact into a new layout."""
    source = f"docker://{host}/{repository}:v1"
    return ("skopeo", "copy", "--preserve-digests", _skopeo("src", trust), source, f"oci:{layout}:v1")


def _skopeo(side: str, trust: Path | None) -> str:
    return f"--{side}-cert-dir={trust}" if trust else f"--{side}-tls-verify=false"


def skopeo_sync(source: str, target: str) -> Command:
    """All tags of a repository, byte for byte, to a repository of the same last name below another."""
    plain = ("--src-tls-verify=false", "--dest-tls-verify=false")
    return (
        "skopeo",
        "sync",
        "--all",
        "--preserve-digests",
        *plain,
        "--src",
        "docker",
        "--dest",
        "docker",
        source,
        target,
    )


def regsync(config: Path) -> Command:
    """A single pass over a configuration."""
    return ("regsync", "once", "--config", str(config), "--verbosity", "warn")


def oras_cli_push(host: str, repository: str, paths: Sequence[Path], trust: Path) -> Command:
    """Files as they are, by the ORAS command line."""
    how = ("--disable-path-validation", "--no-tty", *_oras_cli(trust))
    return ("oras", "push", *how, f"{host}/{repository}:v1", *map(str, paths))


def oras_cli_pull(host: str, repository: str, folder: Path, trust: Path) -> Command:
    """Everything of an artifact, by the ORAS command line."""
    return ("oras", "pull", "--no-tty", *_oras_cli(trust), "--output", str(folder), f"{host}/{repository}:v1")


def _oras_cli(trust: Path) -> Command:
    return ("--plain-http=false", "--ca-file", str(trust / AUTHORITIES))


def oras_push(host: str, repository: str, paths: Sequence[Path]) -> Command:
    """Files as they are, folders as the package packs them: one tar.gz each."""
    return (sys.executable, "-c", ORAS, "push", f"{host}/{repository}:v1", *map(str, paths))


def oras_pull(host: str, repository: str, folder: Path) -> Command:
    """Everything of an artifact."""
    return (sys.executable, "-c", ORAS, "pull", f"{host}/{repository}:v1", str(folder))


def python(code: str) -> Command:
    """A line of Python, in the environment of the others."""
    return (sys.executable, "-c", code)

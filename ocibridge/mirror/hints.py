# SPDX-License-Identifier: Apache-2.0
"""Next steps of errors, in the words of a job file: what other commands have as a flag is a key there."""

from __future__ import annotations

import re

CREDS = {
    "--ca-file": "regcert: FILE",
    "--insecure": "tls: insecure",
    "--plain-http": "tls: disabled",
    "--no-plain-http": "tls: enabled",
    "--cert-file": "clientCert: FILE",
    "--key-file": "clientKey: FILE",
}
"""Flags, and the keys of `creds` that mean the same."""
_OTHERS = {"--registry-config": "the variable REGISTRY_AUTH_FILE"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def in_job(hint: str | None) -> str | None:
    """A hint in the words of a job file.

    Example:
        >>> in_job("skip the check with --insecure")
        "skip the check with tls: insecure (in the job file: 'creds: [{registry: HOST, tls: insecure}]')"
    """
    if hint is None:
        return None
    keys = [CREDS[flag] for flag in FLAG.findall(hint) if flag in CREDS]
    text = FLAG.sub(lambda found: CREDS.get(found[0], _OTHERS.get(found[0], found[0])), hint)
    return f"{text} (in the job file: 'creds: [{{registry: HOST, {keys[0]}}}]')" if keys else text

# SPDX-License-Identifier: Apache-2.0
"""Files that are hardly meant to be published: private keys, credentials and tokens."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ..errors import SourceError
from ..io.content import Content
from ..model import Model
from ..paths import show

_SHOWN = 3
_HEAD = 4096
_NAME = re.compile(
    r"""
    id_(rsa|dsa|ecdsa|ed25519)(_sk)?            # private keys of SSH
    | \.env(rc|\.(?!example$|sample$|template$).*)?
    | [._]netrc | \.npmrc | \.pypirc | \.git-credentials | \.pgpass | \.htpasswd
    | credentials | credentials.*\.json | client_secret.*\.json
    | \.?((hf|huggingface|access|auth|api)[_-]?)?token(\.(txt|json))? | stored_tokens
    """,
    re.VERBOSE,
)
_PLACE = re.compile(r"(^|/)(\.(aws|ssh|gnupg|azure|git)/|\.(docker|kube)/config)")
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----")


def refuse_sensitive(model: Model) -> None:
    """Refuse files that look like secrets, by their names; `*.pem` and `*.key` by the beginning of their content.

    Raises:
        SourceError: there are some.
    """
    found = list(_sensitive(model))
    if not found:
        return
    more = len(found) - _SHOWN
    names = ", ".join(map(show, found[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
    exclude = " ".join(f"--exclude {shlex.quote(f'/{path}')}" for path in found[:_SHOWN])
    raise SourceError(
        f"these files look like keys, credentials or tokens: {names}",
        hint=f"leave them out ({exclude}{' …' if more > 0 else ''}), or publish them (--allow-sensitive)",
    )


def _sensitive(model: Model) -> Iterator[str]:
    for file in model.files:
        path = file.path.lower()
        name = path.rpartition("/")[2]
        key = name.endswith((".pem", ".key")) and _is_private_key(file.content)
        if key or _NAME.fullmatch(name) or _PLACE.search(path):
            yield file.path


def _is_private_key(content: Content) -> bool:
    with content.open() as reader:
        return _KEY.search(reader.read(min(_HEAD, content.size))) is not None

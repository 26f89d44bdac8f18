# SPDX-License-Identifier: Apache-2.0
"""The real carton client, in a process of its own: its panics hang or kill the interpreter.

python carton_client.py info CARTON             everything it says about the carton, as JSON
python carton_client.py shrink CARTON SHA URL   the path of the carton that it makes
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT = 60


def ask(*arguments: str | Path) -> str:
    """Run this file, and return what it prints.

    Raises:
        subprocess.SubprocessError: the client failed or hangs; its standard error is in the message.
    """
    command = [sys.executable, str(Path(__file__)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr)
    return done.stdout


def info(path: Path) -> Any:
    """What the client says about the carton at `path`, with the hashes of its tensors and files."""
    return json.loads(ask("info", path))


def shrink(path: Path, sha256: str, url: str) -> Path:
    """The carton that the client makes of `path` with one file moved to LINKS; in the system's temporary folder."""
    return Path(ask("shrink", path, sha256, url).strip())


async def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: await _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [await _plain(each) for each in value]
    kind = type(value).__name__
    if kind == "LazyLoadedTensor":
        tensor = await value.get()
        return [str(tensor.dtype), list(tensor.shape), hashlib.sha256(tensor.tobytes()).hexdigest()]
    if kind == "LazyLoadedMiscFile":
        return hashlib.sha256(await value.read()).hexdigest()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return {name: await _plain(getattr(value, name)) for name in dir(value) if not name.startswith("_")}


async def _main(verb: str, path: str, *rest: str) -> str:
    import cartonml

    if verb == "shrink":
        return str(await cartonml.shrink(path, {rest[0]: [rest[1]]}))
    return json.dumps(await _plain(await cartonml.get_model_info(path)))


if __name__ == "__main__":
    status = 1
    try:
        print(asyncio.run(_main(*sys.argv[1:])), flush=True)
        status = 0
    except BaseException as exc:  # noqa: BLE001 - a Rust panic is no Exception
        print(f"{type(exc).__name__}: {exc}", file=sys.stderr, flush=True)
    os._exit(status)

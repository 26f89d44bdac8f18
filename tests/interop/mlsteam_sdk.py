# SPDX-License-Identifier: Apache-2.0
"""The plain Python part of the MLSteam SDK, in a process of its own, from .cache/mlsteam-sdk (get_mlsteam_sdk.sh).

python mlsteam_sdk.py manifest FILE                     validate a manifest.json; its schema
python mlsteam_sdk.py generate FILE NAME VERSION        make a manifest.json of v2024.1
python mlsteam_sdk.py extract ARCHIVE FOLDER            unpack an archive
python mlsteam_sdk.py build ARCHIVE FOLDER              pack manifest.json, models/*, hooks and src of a folder
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

VERSIONS = ("0.7.0", "0.8.0")
TIMEOUT = 60

_CACHE = Path(__file__).parents[2] / ".cache" / "mlsteam-sdk"


def ask(version: str, *arguments: str | Path) -> str:
    """Run this file with one version of the SDK, and return what it prints.

    Raises:
        subprocess.SubprocessError: the SDK refused, or is not there; its standard error is in the message.
    """
    folder = _CACHE / version
    if not folder.is_dir():
        raise subprocess.SubprocessError(f"there is no {folder}; run: sh tests/tools/get_mlsteam_sdk.sh")
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr)
    return done.stdout.strip()


def _main(verb: str, file: str, *rest: str) -> str:
    from mlsteam_model_sdk.core.dev import archive, manifest  # type: ignore[import-not-found]

    if verb == "manifest":
        return str(manifest.read_manifest(manifest_file=file, validate=True).schema.value)
    if verb == "generate":
        made, _ = manifest.gen_manifest(rest[0], rest[1], bare_models=[rest[0]])
        Path(file).write_text(json.dumps(made, indent=2), encoding="utf-8")
    elif verb == "extract":
        archive.extract_archive(file, rest[0])
    else:
        folder = Path(rest[0])
        archive.build_archive(
            archive_file=file,
            submodels=[(each.name, str(each)) for each in sorted((folder / "models").iterdir())],
            manifest_file=str(folder / "manifest.json"),
            src_dir=str(folder / "src"),
            hooks_dir=str(folder / "hooks"),
            preserve_model_files_in_src=False,
            preserve_hooks_dir_in_src=False,
            default_exclude_patterns=["__pycache__", "*.py[cod]"],
        )
    return ""


if __name__ == "__main__":
    print(_main(*sys.argv[1:]))

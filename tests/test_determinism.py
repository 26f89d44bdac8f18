# SPDX-License-Identifier: Apache-2.0
"""One carton, one manifest digest: whoever, wherever, whenever. `make pythons` runs this file on other Pythons."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ocibridge

FIXTURES = Path(__file__).parent / "fixtures"
GOLDEN = {
    ("tar", "none"): "sha256:9f6a9d52343a326607500ed954b578a9451349b3f2069bb7fc6a0c9c6eab1ae7",
    ("raw", "none"): "sha256:0092ce10270dcfc09a9b6fe331084dd089d6ffedb17e3d6ea0e67bf97a6788cb",
    ("raw-files", "none"): "sha256:c138f69514f63988c29f5d21a5191f8d2da21a31e60d5588bb05a0ed1d09becb",
    ("tar", "gzip"): "sha256:0a9ebb8ba02c78cfaf340d62acce4ea3245e6632cf77c6444582fb6084354302",
    ("tar", "zstd"): "sha256:4e87419edf55db89c194f23cb4a24b22ae1db79af787b877847988147763c5f9",
}
PUSH = """
import os, sys
import ocibridge
os.umask(int(sys.argv[3], 8))
print(ocibridge.push(sys.argv[1], sys.argv[2]).digest)
"""


@pytest.mark.parametrize(("layers", "compress"), GOLDEN)
def test_golden_digests(layers: str, compress: str, tmp_path: Path) -> None:
    pushed = ocibridge.push(
        FIXTURES / "digits.carton", f"oci:{tmp_path}/x:v1", ocibridge.PushOptions(layers=layers, compress=compress)
    )
    assert pushed.digest == GOLDEN[layers, compress]


@pytest.mark.parametrize(
    ("umask", "env"),
    [
        ("000", {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"}),
        ("077", {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "1"}),
        ("022", {"TZ": "UTC", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "2", "PYTHONUTF8": "0"}),
    ],
)
def test_umask_time_zone_locale_and_hash_seed_do_not_count(umask: str, env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "copy.carton"
    shutil.copyfile(FIXTURES / "digits.carton", source)
    os.utime(source, (1, 1))
    command = [sys.executable, "-c", PUSH, str(source), f"oci:{tmp_path}/layout:v1", umask]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == GOLDEN["tar", "none"]


def _push_as(user: int, folder: str, answer: multiprocessing.SimpleQueue[str]) -> None:
    os.setgid(user)
    os.setuid(user)
    os.environ["HOME"] = folder
    answer.put(ocibridge.push(f"{folder}/digits.carton", f"oci:{folder}/layout:v1").digest)


def test_another_user_gets_the_same_digest(tmp_path: Path) -> None:
    """Where the tests run as root; elsewhere the user is the one who runs them, which the golden digests cover."""
    ocibridge.push(FIXTURES / "digits.carton", f"oci:{tmp_path}/mine:v1")  # imports all that the child cannot
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o711)
    home = tmp_path / "home"
    home.mkdir()
    shutil.copyfile(FIXTURES / "digits.carton", home / "digits.carton")
    if user != os.geteuid():
        os.chown(home, user, user)
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_push_as if user != os.geteuid() else _push_here, args=(user, str(home), answer))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answer.get() == GOLDEN["tar", "none"]
    answer.close()


def _push_here(user: int, folder: str, answer: multiprocessing.SimpleQueue[str]) -> None:
    answer.put(ocibridge.push(f"{folder}/digits.carton", f"oci:{folder}/layout:v1").digest)


def test_source_date_epoch_is_an_explicit_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pushed = ocibridge.push(FIXTURES / "digits.carton", f"oci:{tmp_path}/x:v1")
    assert pushed.digest != GOLDEN["tar", "none"]
    annotations = ocibridge.inspect(pushed.reference).annotations
    assert annotations["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"

# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: pushes and pulls one large carton beside other tools, and prints a table.

Tools that are not installed are left out and named. The registry is the real one, on this machine, as a process.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ocibridge
from tests.registry import registry_server

from .measure import Run, median

MiB = 1024 * 1024
STORED = Path(__file__).parent.parent / "tests" / "fixtures" / "digits-stored.carton"
OCIBRIDGE = (sys.executable, "-m", "ocibridge")
ORAS = """
import sys, oras.client
client = oras.client.OrasClient(insecure=True)
if sys.argv[1] == "push":
    client.push(target=sys.argv[2], files=[sys.argv[3]], disable_path_validation=True)
else:
    client.pull(target=sys.argv[2], outdir=sys.argv[3])
"""
CURL_PUSH = """
location=$(curl -sS -o /dev/null -D - -X POST "http://$1/v2/$2/blobs/uploads/" -H "Content-Length: 0" |
    tr -d '\\r' | sed -n 's/^[Ll]ocation: //p')
curl -sS --fail -o /dev/null -X PUT -H "Content-Type: application/octet-stream" -T "$3" "$location&digest=$4"
"""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    tool: str
    run: Run


def make_carton(path: Path, size: int) -> None:
    """A Stored carton with one weight of `size` bytes, no two of its 8 MiB blocks alike."""
    with zipfile.ZipFile(STORED) as digits:
        toml = digits.read("carton.toml")
    small = {"carton.toml": toml, "tensor_data/index.toml": b"tensor = []\n"}
    digest = hashlib.sha256()
    block = os.urandom(8 * MiB)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(zipfile.ZipInfo("model/model.pt"), "w", force_zip64=True) as weight:
            for start in range(0, size, len(block)):
                piece = (start.to_bytes(8, "big") + block)[: min(len(block), size - start)]
                digest.update(piece)
                weight.write(piece)
        rows = {name: hashlib.sha256(data).hexdigest() for name, data in small.items()}
        rows["model/model.pt"] = digest.hexdigest()
        small["MANIFEST"] = "".join(f"{name}={rows[name]}\n" for name in sorted(rows)).encode()
        for name, data in small.items():
            archive.writestr(zipfile.ZipInfo(name), data)


class Bench:
    """The commands, and where they work.

    Args:
        folder: A folder with room for about eight times the carton.
        host: The registry.
        size: Bytes of the weight.
        rounds: Runs that count.
    """

    def __init__(self, folder: Path, host: str, size: int, rounds: int) -> None:
        self.folder, self.host, self.rounds = folder, host, rounds
        self.rows: list[Row] = []
        self.missing: list[str] = []
        self.temp = folder / "temp"
        self.out = folder / "out"
        for each in (self.temp, self.out):
            each.mkdir()
        self.carton = folder / "model.carton"
        make_carton(self.carton, size)
        ocibridge.pull(
            ocibridge.push(self.carton, f"{host}/bench/seed:v1", layers="raw-files").reference, folder / "model"
        )
        self.weight = folder / "model" / "model" / "model.pt"
        with self.weight.open("rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(MiB):
                digest.update(piece)
        self.digest = "sha256:" + digest.hexdigest()
        self._number = 0

    def fresh(self) -> str:
        """A repository that nobody has pushed to."""
        self._number += 1
        return f"bench/r{self._number}"

    def clear(self) -> None:
        """An empty output folder."""
        shutil.rmtree(self.out)
        self.out.mkdir()

    def add(self, what: str, tool: str, command: Callable[[], Sequence[str]], needs: str | None = None) -> None:
        """Measure one command."""
        if needs and not shutil.which(needs):
            self.missing.append(f"{what}, {tool}: {needs} is not installed")
            return
        env = {"TMPDIR": str(self.temp), "HOME": str(self.temp)}
        found = median(command, self.rounds, prepare=self.clear, watch=(self.temp, self.out), env=env)
        self.rows.append(Row(what, tool, found))
        print(f"  {what}, {tool}: {found.wall:.2f} s, {found.rss / MiB:.0f} MiB", file=sys.stderr, flush=True)

    def all(self) -> None:
        """Every row of the table."""
        host, carton, out = self.host, str(self.carton), self.out
        curl = ("sh", "-ec", CURL_PUSH, "sh", host)
        layout = self.folder / "layout"
        ocibridge.push(self.carton, f"oci:{layout}:v1", layers="raw-files")
        ready = ocibridge.push(self.carton, f"{host}/bench/ready:v1").reference
        raw = f"{host}/bench/seed:v1"
        blob = f"http://{host}/v2/bench/seed/blobs/{self.digest}"
        push = (*OCIBRIDGE, "push", "--quiet", carton)
        pull = (*OCIBRIDGE, "pull", "--quiet")

        self.add("push", "curl", lambda: (*curl, self.fresh(), str(self.weight), self.digest), "curl")
        self.add("push", "ocibridge (raw-files)", lambda: (*push, f"{host}/{self.fresh()}:v1", "--layers", "raw-files"))
        self.add("push", "ocibridge (tar)", lambda: (*push, f"{host}/{self.fresh()}:v1"))
        self.add(
            "push",
            "skopeo",
            lambda: (
                "skopeo",
                "copy",
                "--dest-tls-verify=false",
                f"oci:{layout}:v1",
                f"docker://{host}/{self.fresh()}:v1",
            ),
            "skopeo",
        )
        self.add(
            "push",
            "oras package",
            lambda: (sys.executable, "-c", ORAS, "push", f"{host}/{self.fresh()}:v1", str(self.weight)),
        )
        self.add("push again, unchanged", "ocibridge (tar)", lambda: (*push, f"{host}/bench/ready:v1"))
        self.add("pull", "curl", lambda: ("curl", "-sS", "--fail", "-o", str(out / "blob"), blob), "curl")
        self.add("pull", "ocibridge (raw-files, folder)", lambda: (*pull, raw, str(out / "model")))
        self.add("pull", "ocibridge (tar, folder)", lambda: (*pull, ready, str(out / "model")))
        self.add("pull", "ocibridge (tar, carton)", lambda: (*pull, ready, str(out / "model.carton")))
        self.add(
            "pull",
            "skopeo",
            lambda: ("skopeo", "copy", "--src-tls-verify=false", f"docker://{raw}", f"oci:{out / 'layout'}:v1"),
            "skopeo",
        )
        self.add("pull", "oras package", lambda: (sys.executable, "-c", ORAS, "pull", raw, str(out)))
        self.add("start", "python -c pass", lambda: (sys.executable, "-c", "pass"))
        self.add("start", "ocibridge --help", lambda: (*OCIBRIDGE, "--help"))
        self.add("start", "ocibridge inspect (55 KB carton)", lambda: (*OCIBRIDGE, "inspect", "--json", str(STORED)))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown; the ratio is to the first tool of the same measure."""
    lines = [
        "| measure | tool | wall s | ratio | cpu s | peak RSS MiB | peak disk MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    first: dict[str, float] = {}
    for row in rows:
        base = first.setdefault(row.what, row.run.wall)
        found = row.run
        lines.append(
            f"| {row.what} | {row.tool} | {found.wall:.2f} | {found.wall / base:.2f} | {found.cpu:.2f} "
            f"| {found.rss / MiB:.0f} | {found.disk / MiB:.0f} |"
        )
    return "\n".join(lines)


def page(bench: Bench, size: int) -> str:
    """The page `docs/benchmarks.md`."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    counted = "one run each" if bench.rounds == 1 else f"medians of {bench.rounds} runs after one that does not count"
    left_out = "".join(f"\n- left out: {each}" for each in bench.missing)
    return f"""# Speed and memory

Written by `make bench`. One weight of {size // MiB} MiB in a carton; distribution's registry as a process on the same
machine; {counted}; ratios to the first tool of the same measure.
curl neither hashes nor verifies, so it is the floor. Peak disk counts the output and the folder for temporary files.

Machine: {machine}.{left_out}

{table(bench.rows)}
"""


def main() -> None:
    """Run, and print or write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", type=int, default=2048, help="MiB of the weight (default 2048)")
    parser.add_argument("--rounds", type=int, default=3, help="runs that count (default 3)")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    parser.add_argument("--smoke", action="store_true", help="a small weight, once: proves that everything runs")
    options = parser.parse_args()
    size = (16 if options.smoke else options.size) * MiB
    os.environ["OCIBRIDGE_TEST_REGISTRY"] = "process"
    with tempfile.TemporaryDirectory(prefix="ocibridge-bench-") as name:
        storage, work = Path(name, "registry"), Path(name, "work")
        storage.mkdir()
        work.mkdir()
        with registry_server(storage) as server:
            bench = Bench(work, server.host, size, 1 if options.smoke else options.rounds)
            bench.all()
    text = page(bench, size)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

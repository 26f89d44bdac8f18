# SPDX-License-Identifier: Apache-2.0
"""Mistakes that would destroy something: each is refused, and everything is as it was before."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.io import existing

from .scene import Scene, fill, snapshot

Setup = Callable[[Path], object]


def nothing(_: Path) -> None:
    """Leave the scene as it is."""


def ours_and(path: str, data: bytes = b"mine") -> Setup:
    return lambda root: fill(root / "ours", {path: data})


def ours_with_link(root: Path) -> None:
    (root / "ours" / "data").symlink_to(root / "foreign")


def ours_with_pipe(root: Path) -> None:
    os.mkfifo(root / "ours" / "pipe")


def ours_with_folder(root: Path) -> None:
    (root / "ours" / "later").mkdir()


def ours_with_file_as_link(root: Path) -> None:
    shutil.move(root / "ours" / "config.json", root / "foreign" / "moved.json")
    (root / "ours" / "config.json").symlink_to(root / "foreign" / "moved.json")


def of_another(path: str) -> Setup:
    def give(root: Path) -> None:
        if os.geteuid() == 0:
            os.lchown(root / path, 12345, 12345)

    return give


def mode(path: str, bits: int) -> Setup:
    return lambda root: (root / path).chmod(bits)


def device(root: Path) -> None:
    """A device of our own for root; others have a link in its place, and could not remove the device either."""
    if os.geteuid() == 0:
        os.mknod(root / "null.carton", 0o20666, os.makedev(1, 3))
    else:
        (root / "null.carton").symlink_to("/dev/null")


def device_inside(root: Path) -> None:
    device(root)
    shutil.move(root / "null.carton", root / "foreign" / "README.md")
    (root / "foreign" / "config.json").unlink()


def pipe(root: Path) -> None:
    os.mkfifo(root / "pipe.carton")


def listening(root: Path) -> None:
    here = Path.cwd()
    os.chdir(root)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.carton")
    os.chdir(here)


def link(name: str, target: str) -> Setup:
    return lambda root: (root / name).symlink_to(root / target)


def weights_lead_out(root: Path) -> None:
    (root / "foreign" / "config.json").unlink()
    (root / "foreign" / "weights").symlink_to(root / "homes" / "me")


def volumes(root: Path) -> None:
    fill(root, {"x.tar.001": b"mine", "x.tar.002": b"mine"})


def job(root: Path) -> None:
    """Files with the names of those that a mirror run writes, and jobs that copy one tag."""
    work = root / "desk" / "work"
    fill(work, {"config.json": b'{"mine": 1}', "index.html": b"<html>", "rules.prom": b"up 1\n"})
    os.mkfifo(work / "pipe.json")
    entry = {"source": f"oci:{root}/stores/lay:v1", "target": f"oci:{root}/stores/new:v1", "type": "image"}
    for name in ("job.yaml", "job.json"):
        (work / name).write_text(json.dumps({"version": 1, "sync": [entry]}))


HOLDS = "the working folder, .*, lies inside it"
IS_HOME, IS_WORK = "it is the home folder", "it is the working folder"
ROOT = "it is the root of the file system"
FOREIGN = "not written by ocibridge, or w.* changed since"
READ = "it is what is read"
IN_THE_WAY = "in it is in the way with other content"
NOT_OURS = "ocibridge did not write it, or it was changed since"

PULLS: list[tuple[str, Setup, str, str]] = [
    # Homes, roots, working folders and all that holds them; what follows DEST are flags.
    ("home", nothing, "{root}/homes/me --force", IS_HOME),
    ("home, deleting", nothing, "{root}/homes/me --delete-existing", IS_HOME),
    ("home by HOME", nothing, "{home}/. --delete-existing", IS_HOME),
    ("all homes", nothing, "{root}/homes --delete-existing", "the home folder, .*, lies inside it"),
    ("link to home", nothing, "{root}/to-home --delete-existing", IS_HOME),
    ("link to home, by force", nothing, "{root}/to-home --force", IS_HOME),
    ("home by a detour", nothing, "{root}/desk/../homes/me --delete-existing", IS_HOME),
    ("home by a detour through a link", nothing, "{root}/to-home/../me --delete-existing", IS_HOME),
    ("root", nothing, "/ --force", ROOT),
    ("root, deleting", nothing, "/ --delete-existing", ROOT),
    ("root, adding", nothing, "/", ROOT),
    ("root by dots", nothing, "/.. --delete-existing", ROOT),
    ("working folder", nothing, ". --force", IS_WORK),
    ("working folder, deleting", nothing, ". --delete-existing", IS_WORK),
    ("working folder by name", nothing, "../work --delete-existing", IS_WORK),
    ("working folder by its path", nothing, "{root}/desk/work --delete-existing", IS_WORK),
    ("working folder by a link", nothing, "{root}/to-work --delete-existing", IS_WORK),
    ("working folder by a detour", nothing, "a/../../work --delete-existing", IS_WORK),
    ("working folder by a detour, by force", nothing, "a/../../work --force", IS_WORK),
    ("parent", nothing, ".. --delete-existing", HOLDS),
    ("parent, by force", nothing, ".. --force", HOLDS),
    ("parent by its path", nothing, "{root}/desk --delete-existing", HOLDS),
    ("parent by a detour", nothing, "a/deep/../../.. --delete-existing", HOLDS),
    # --force on what somebody else wrote.
    ("foreign folder", nothing, "{root}/foreign --force", FOREIGN),
    ("foreign file in ours", ours_and("notes.txt"), "{root}/ours --force", "'notes.txt' in it was " + FOREIGN),
    ("changed file in ours", ours_and("config.json"), "{root}/ours --force", "'config.json' in it was " + FOREIGN),
    ("foreign file below", ours_and("weights/x"), "{root}/ours --force", "'weights/x' in it was " + FOREIGN),
    ("foreign link in ours", ours_with_link, "{root}/ours --force", "'data' in it was " + FOREIGN),
    ("foreign pipe in ours", ours_with_pipe, "{root}/ours --force", "'pipe' in it was " + FOREIGN),
    ("foreign folder in ours", ours_with_folder, "{root}/ours --force", "'later' in it was " + FOREIGN),
    ("file moved out of ours", ours_with_file_as_link, "{root}/ours --force", "'config.json' in it was " + FOREIGN),
    # Folders that nobody removes whole.
    ("read-only folder", mode("foreign", 0o555), "{root}/foreign --delete-existing", "it is read-only"),
    ("read-only in ours", mode("ours/weights", 0o555), "{root}/ours --delete-existing", "'weights' in it is read-only"),
    # What is no folder.
    ("folder in place of a file", nothing, "{root}/mine.carton --as folder --delete-existing", "it is a file"),
    ("folder in place of a file, by force", nothing, "{root}/mine.carton --as folder --force", "it is a file"),
    ("folder in place of a device", device, "{root}/null.carton --as folder --force", "it is a (device|symbolic link)"),
    ("folder in place of a pipe", pipe, "{root}/pipe.carton --as folder --delete-existing", "it is a named pipe"),
    ("broken link", link("gone", "nowhere"), "{root}/gone --delete-existing", "it is a symbolic link"),
    # Adding to a folder.
    ("file in the way", nothing, "{root}/foreign", "'config.json' " + IN_THE_WAY),
    ("changed file in the way", ours_and("README.md"), "{root}/ours", "'README.md' " + IN_THE_WAY),
    (
        "folder in place of a model's file",
        lambda root: (root / "foreign" / "README.md").mkdir(),
        "{root}/foreign --overwrite",
        "'README.md' in it is a folder",
    ),
    (
        "file in place of a model's folder",
        lambda root: fill(root / "foreign", {"weights": b"mine"}),
        "{root}/foreign --overwrite",
        "'weights' in it is a file, and not a folder",
    ),
    ("folder that leads out", weights_lead_out, "{root}/foreign --overwrite", "'weights' in it is a symbolic link"),
    ("device in the way", device_inside, "{root}/foreign", "'README.md' in it is"),
    (
        "file that leads out",
        link("foreign/README.md", "homes/me/thesis.txt"),
        "{root}/foreign",
        "'config.json', 'README.md' in it are in the way",
    ),
    ("other .ocibridge", lambda root: fill(root / "foreign", {".ocibridge": b"mine"}), "{root}/foreign", "is none"),
    ("link .ocibridge", link("foreign/.ocibridge", "desk/work/notes.txt"), "{root}/foreign --overwrite", "is none"),
    # The source itself.
    ("source", nothing, "{root}/stores/lay --force", READ),
    ("source, deleting", nothing, "{root}/stores/lay --delete-existing", READ),
    ("source, adding", nothing, "{root}/stores/lay", READ),
    ("source by a link", nothing, "{root}/to-layout --delete-existing", READ),
    ("folder of the source", nothing, "{root}/stores --delete-existing", "which is read, lies inside it"),
    ("folder of the source, by force", nothing, "{root}/stores --force", "which is read, lies inside it"),
    ("blobs of the source", nothing, "{root}/stores/lay/blobs --delete-existing", "which is read"),
    ("new folder in the source", nothing, "{root}/stores/lay/new", "which is read"),
]

COMMANDS: list[tuple[str, Setup, list[str], str]] = [
    *(
        (f"{what} {flag}", make, ["pull", "oci:{root}/stores/lay:carton", dest, flag], sentence)
        for what, make, dest, sentence in (
            ("device", device, "{root}/null.carton", "it is a (device|symbolic link)"),
            ("pipe", pipe, "{root}/pipe.carton", "it is a named pipe"),
            ("socket", listening, "{root}/socket.carton", "it is a socket"),
            ("link to a file", link("l.carton", "mine.carton"), "{root}/l.carton", "it is a symbolic link"),
            ("folder as a file", lambda root: (root / "f.carton").mkdir(), "{root}/f.carton", "it is a folder"),
        )
        for flag in ("--force", "--overwrite", "--delete-existing")
    ),
    ("/dev/null", nothing, ["pull", "oci:{root}/stores/lay:carton", "/dev/null", "--force"], "it is a device"),
    ("file", nothing, ["pull", "oci:{root}/stores/lay:carton", "{root}/mine.carton"], "it exists"),
    ("file by force", nothing, ["pull", "oci:{root}/stores/lay:carton", "{root}/mine.carton", "--force"], NOT_OURS),
    *(
        (f"convert to itself {flag}", nothing, ["convert", "{root}/mine.carton", "{root}/mine.carton", flag], READ)
        for flag in ("--force", "--overwrite", "--delete-existing")
    ),
    ("convert folder to itself", nothing, ["convert", "{root}/ours", "{root}/ours", "--delete-existing"], READ),
    ("convert into itself", nothing, ["convert", "{root}/ours", "{root}/ours/copy"], "lies inside .* which is read"),
    (
        "convert over its folder",
        lambda root: shutil.copy(root / "mine.carton", root / "foreign" / "m.carton"),
        ["convert", "{root}/foreign/m.carton", "{root}/foreign", "--delete-existing"],
        "which is read, lies inside it",
    ),
    (
        "convert over its link",
        link("again.carton", "mine.carton"),
        ["convert", "{root}/again.carton", "{root}/mine.carton", "--overwrite"],
        READ,
    ),
    ("convert over home", nothing, ["convert", "{root}/mine.carton", "{home}", "--delete-existing"], IS_HOME),
    ("convert over work", nothing, ["convert", "{root}/mine.carton", ".", "--force"], IS_WORK),
    ("convert over a foreign folder", nothing, ["convert", "{root}/mine.carton", "{root}/foreign", "--force"], FOREIGN),
    ("pack over a file", nothing, ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:notes.txt"], "it exists"),
    (
        "pack over a file by force",
        nothing,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:notes.txt", "--force"],
        NOT_OURS,
    ),
    (
        "pack over a device",
        device,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/null.carton", "--overwrite"],
        "it is a (device|symbolic link)",
    ),
    (
        "pack over a folder",
        nothing,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/foreign", "--delete-existing"],
        "it is a folder",
    ),
    (
        "pack into the source",
        nothing,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/stores/lay/x.tar"],
        "which is read",
    ),
    (
        "inventory over a file",
        nothing,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/x.tar", "--inventory", "notes.txt"],
        "it exists, and is no inventory",
    ),
    (
        "inventory over its archive",
        nothing,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/x.tar", "--inventory", "{root}/x.tar"],
        "x.tar: it is the archive",
    ),
    ("report over a file", job, ["mirror", "run", "job.yaml", "--report", "config.json"], "no report of a mirror run"),
    ("page over a file", job, ["mirror", "run", "job.yaml", "--report", "index.html"], "no report of a mirror run"),
    ("report over a device", job, ["mirror", "run", "job.yaml", "--report", "pipe.json"], "no report of a mirror run"),
    ("report over the job", job, ["mirror", "run", "job.json", "--report", "job.json"], "no report of a mirror run"),
    ("metrics over a file", job, ["mirror", "run", "job.yaml", "--metrics", "rules.prom"], "no file of metrics"),
    ("plan over a file", job, ["mirror", "plan", "job.yaml", "-o", "config.json"], "no plan of a mirror job"),
    ("plan over the job", job, ["mirror", "plan", "job.yaml", "-o", "job.yaml"], "no plan of a mirror job"),
    (
        "journal over a file",
        job,
        ["mirror", "run", "job.yaml", "--journal", "config.json"],
        "no journal of a mirror run",
    ),
    ("journal over the job", job, ["mirror", "run", "job.yaml", "--journal", "job.yaml"], "no journal of a mirror run"),
    (
        "journal of a plan over a file",
        job,
        ["mirror", "plan", "job.yaml", "--journal", "config.json", "-o", "config.json"],
        "no plan of a mirror job",
    ),
    (
        "pack over volumes",
        volumes,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/x.tar", "--volume-size", "64KiB"],
        "x.tar.001: it exists",
    ),
    (
        "pack over volumes of others",
        volumes,
        ["copy", "oci:{root}/stores/lay:v1", "--to", "oci-archive:{root}/x.tar", "--volume-size=64KiB", "--overwrite"],
        "x.tar.002 is a volume of another archive",
    ),
]


def placed(text: str, scene: Scene) -> str:
    return text.format(root=scene.root, home=scene.home)


def refused(scene: Scene, argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(scene.root)
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(sentence, err), err
    assert "Traceback" not in err
    assert snapshot(scene.root) == before


@pytest.mark.parametrize(("setup", "line", "sentence"), [case[1:] for case in PULLS], ids=[case[0] for case in PULLS])
def test_pulls(scene: Scene, setup: Setup, line: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    setup(scene.root)
    words = [placed(word, scene) for word in line.split()]
    refused(scene, ["pull", f"oci:{scene.layout}:v1", *words], sentence, capsys)


@pytest.mark.parametrize(
    ("setup", "argv", "sentence"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS]
)
def test_commands(
    scene: Scene, setup: Setup, argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    setup(scene.root)
    refused(scene, [placed(word, scene) for word in argv], sentence, capsys)


@pytest.mark.parametrize("path", ["foreign", "foreign/precious.txt"])
def test_what_belongs_to_another_user(
    scene: Scene, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_another(path)(scene.root)
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    argv = ["pull", f"oci:{scene.layout}:v1", str(scene.root / "foreign"), "--delete-existing"]
    refused(scene, argv, "belongs to another user|not this user's own", capsys)


@pytest.mark.parametrize("flag", ["--force", "--delete-existing"])
@pytest.mark.parametrize("dest", ["foreign/disk", "foreign", "to-disk"])
def test_mount_points(
    scene: Scene, dest: str, flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = scene.root / "foreign" / "disk"
    fill(disk, {"data": b"mine"})
    (scene.root / "to-disk").symlink_to(disk)
    monkeypatch.setattr(existing, "mount_points", lambda: [Path("/"), disk])
    argv = ["pull", f"oci:{scene.layout}:v1", str(scene.root / dest), flag]
    refused(scene, argv, "a mount point", capsys)


@pytest.mark.parametrize("flag", ["--force", "--delete-existing"])
def test_real_mount_points(scene: Scene, flag: str) -> None:
    """Root mounts a file system where nobody else sees it; for others the system has some mounted."""
    disk = scene.root / "foreign" / "disk"
    disk.mkdir()
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        assert existing.is_mount(Path("/proc"))
        assert Path("/") in existing.mount_points()
        return
    pull = shlex.join([sys.executable, "-m", "ocibridge", "pull", f"oci:{scene.layout}:v1"])
    script = f"mount -t tmpfs none {disk} && echo mine > {disk}/data; for dest in {disk} {disk.parent}; do "
    script += f"{pull} $dest {flag} || cat {disk}/data; done; {pull} {disk} -q; ls -A {disk}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[:2] == ["mine", "mine"]
    assert done.stdout.splitlines()[3:] == [".ocibridge", "README.md", "config.json", "data", "weights"]
    assert done.stderr.count("a mount point") == 2


@pytest.mark.parametrize(
    "flags", [("--overwrite", "--force"), ("--force", "--delete-existing"), ("--overwrite", "--delete-existing")]
)
def test_one_flag_at_most(scene: Scene, flags: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(scene.root)
    assert scene.pull(scene.root / "foreign", *flags) == 2
    assert f"{flags[0]} and {flags[1]} cannot be combined; leave out {flags[0]}" in capsys.readouterr().err
    assert snapshot(scene.root) == before


@pytest.mark.parametrize("flag", ["--force", "--overwrite", "--delete-existing"])
@pytest.mark.parametrize("argv", [["copy", "oci:{lay}:v1", "oci:{lay}:v3"], ["convert", "{root}/ours", "oci:{lay}:v3"]])
def test_flags_without_effect(scene: Scene, argv: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(scene.root)
    assert main([each.format(lay=scene.layout, root=scene.root) for each in argv] + [flag]) == 2
    assert flag in capsys.readouterr().err
    assert snapshot(scene.root) == before


@pytest.mark.parametrize(
    ("dest", "flag", "sentence"),
    [
        ("foreign", "", IN_THE_WAY),
        ("foreign", "--force", FOREIGN),
        ("homes", "--delete-existing", "home folder"),
        ("mine.carton", "", "it exists"),
        ("mine.carton", "--force", NOT_OURS),
    ],
)
def test_what_is_in_the_way_is_found_before_anything_is_fetched(
    scene: Scene, dest: str, flag: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = f"oci:{scene.layout}:{'carton' if dest.endswith('.carton') else 'v1'}"
    for layer in ocibridge.inspect(reference).layers:
        (scene.layout / "blobs" / layer.digest.replace(":", "/")).unlink()
    refused(scene, ["pull", reference, str(scene.root / dest), *([flag] if flag else [])], sentence, capsys)


def test_no_hint_recommends_a_deletion(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("foreign", "foreign --force", "mine.carton"):
        dest, *flags = line.split()
        tag = "carton" if dest.endswith(".carton") else "v1"
        assert scene.pull(scene.root / dest, *flags, tag=tag) == 1
        err = capsys.readouterr().err.replace("(--delete-existing replaces the whole folder)", "")
        assert "--delete-existing" not in err
        assert "--force" not in err.replace("leave out --force", "")

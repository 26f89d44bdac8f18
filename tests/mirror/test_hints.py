# SPDX-License-Identifier: Apache-2.0
"""Next steps of errors in a mirror run are such that a job file, or a flag of the command, can take them."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import build_parser
from ocibridge.mirror.hints import CREDS, FLAG, in_job
from ocibridge.mirror.jobs.jobfile import Creds
from ocibridge.mirror.reports import MirrorItem
from ocibridge.mirror.run import mirror_run

from ..registry import TLS, RegistryServer
from .artifacts import job, put

PACKAGE = Path(ocibridge.__file__).parent
USED = [
    *(PACKAGE / name for name in ("mirror", "stores", "transfer", "dialects", "oci", "layers")),
    *(PACKAGE / "operations" / name for name in ("artifacts.py", "companions.py", "image.py", "original.py")),
    PACKAGE / "operations" / "translate.py",
]
"""What a mirror run consists of."""
ELSEWHERE = {
    "stores/volumes.py": "archives, which a job cannot name",
    "stores/volumewriter.py": "archives",
    "stores/registry/credentials.py: check_login": "ocibridge login",
    "dialects/annotations.py": "annotations of a push",
    "dialects/base.py: check": "what a push is asked for; translations say it anew",
    "dialects/packing.py: _share": "roles of the files of a push",
}


def hints() -> Iterator[tuple[str, str]]:
    """Every text with a flag that may become a hint, with where it stands."""
    for path in (file for each in USED for file in ([each] if each.is_file() else sorted(each.rglob("*.py")))):
        name = path.relative_to(PACKAGE).as_posix()
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and not {name, f"{name}: {function.name}"} & ELSEWHERE.keys():
                for node in ast.walk(function):
                    if isinstance(node, ast.Assign):
                        name_of = ast.unparse(node.targets[0]).rpartition(".")[2]
                    else:
                        name_of = node.arg or "" if isinstance(node, ast.keyword) else ""
                    text = ast.unparse(node.value) if isinstance(node, ast.Assign | ast.keyword) else ""
                    if name_of == "hint" and FLAG.search(text):
                        yield f"{name}: {function.name}", text


def flags() -> set[str]:
    """The flags of `mirror run`."""

    def below(parser: argparse.ArgumentParser, word: str) -> argparse.ArgumentParser:
        each = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        found = each.choices[word]
        assert isinstance(found, argparse.ArgumentParser)
        return found

    run = below(below(build_parser("mirror"), "mirror"), "run")
    return {flag for action in run._actions for flag in action.option_strings}


def test_every_flag_of_a_hint_is_one_of_the_command_or_of_another_that_is_named() -> None:
    known, found = flags(), list(hints())
    assert len(found) >= 10
    for where, text in found:
        said = in_job(text) or ""
        # What a model lacks is put right where it is published.
        elsewhere = "push" in said or "hf download" in said
        strange = set() if elsewhere else {flag for flag in FLAG.findall(said) if flag not in known}
        assert not strange, f"{where}: {text}"


@pytest.mark.parametrize("key", CREDS.values())
def test_the_keys_are_those_of_job_files(key: str) -> None:
    name, value = key.split(": ")
    allowed = Creds.model_json_schema(by_alias=True)["properties"]
    assert name in allowed
    assert value == "FILE" or value in str(Creds.model_json_schema(by_alias=True))


@pytest.mark.parametrize(("asked", "named"), [("", "regcert: FILE"), ("tls: disabled", "tls: enabled")])
def test_the_key_that_a_hint_names_helps(
    tmp_path: Path, source: RegistryServer, tls_registry: RegistryServer, repository: str, asked: str, named: str
) -> None:
    put(source.host, repository, "v1")
    host = tls_registry.host

    def run(creds: str) -> MirrorItem:
        text = f"""
            version: 1
            {creds}
            sync: [{{source: {source.host}/{repository}:v1, target: {host}/{repository}:v1, type: image}}]
            """
        (item,) = mirror_run(job(tmp_path / "job.yaml", text)).items
        return item

    failed = run(f"creds: [{{registry: {host}, {asked}}}]" if asked else "")
    assert failed.error is not None
    assert failed.error.hint is not None
    assert named in failed.error.hint
    assert "--" not in failed.error.hint
    advice = failed.error.hint.rpartition("(in the job file: '")[2].removesuffix("')")
    ca = TLS / "ca.pem"
    mended = run(advice.replace("HOST", host).replace("FILE", str(ca)).replace("enabled", f"enabled, regcert: {ca}"))
    assert mended.outcome == "copied"

# SPDX-License-Identifier: Apache-2.0
"""The manifests of docs/deploy: what Kubernetes accepts, with job files and command lines that ocibridge accepts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from ocibridge.cli.main import build_parser
from ocibridge.cli.options import options_of
from ocibridge.mirror.jobs.job import Job
from ocibridge.mirror.options import RunOptions
from ocibridge.mirror.output.metrics import check_metrics
from ocibridge.mirror.shards import Shard

from ..volume.test_kubernetes_schemas import VERSIONS, errors

FOLDER = Path(__file__).parents[2] / "docs" / "deploy"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
KINDS = {
    "cronjob.yaml": ["ConfigMap", "Secret", "PersistentVolumeClaim", "CronJob"],
    "indexed-job.yaml": ["ConfigMap", "Secret", "Job"],
    "dask.yaml": ["ConfigMap", "Secret", "NetworkPolicy", "Service", "Deployment", "Deployment", "Job"],
}
USER = 65532
"""See the Dockerfile."""


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def pods(name: str) -> Iterator[dict[str, Any]]:
    """The specs of all pods of a file."""
    for document in documents(name):
        spec = document.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield template["spec"]


def containers(name: str) -> list[dict[str, Any]]:
    return [container for pod in pods(name) for container in pod["containers"]]


def mirror_arguments(name: str) -> list[str]:
    """Of the one container of a file that runs the command of the image."""
    (container,) = (each for each in containers(name) if "command" not in each)
    return list(container["args"])


def job_of(name: str, folder: Path) -> Job:
    """The job file of a manifest, at the place that the command line names."""
    (found,) = (document["data"] for document in documents(name) if document["kind"] == "ConfigMap")
    at = Path(mirror_arguments(name)[2])
    assert (list(found), str(at.parent)) == ([at.name], "/etc/ocibridge")
    path = folder / at.name
    path.write_text(found[at.name], encoding="utf-8")
    return Job.load(path)


def test_there_is_one_for_each_way() -> None:
    assert {name: [document["kind"] for document in documents(name)] for name in FILES} == KINDS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_kubernetes_accepts_it(name: str, version: str) -> None:
    for document in documents(name):
        assert errors(version, document) == []


@pytest.mark.parametrize("name", FILES)
def test_the_job_file_is_valid(name: str, tmp_path: Path) -> None:
    job = job_of(name, tmp_path)
    assert job.entries
    assert job.warnings == ()


@pytest.mark.parametrize("name", FILES)
def test_the_command_line_is_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "15")
    args = build_parser("mirror").parse_args(mirror_arguments(name))
    assert args.run.__name__ == "_run"
    shard = options_of(args, RunOptions).shard
    assert shard is None or shard.index == 15
    if args.push_gateway:
        check_metrics(args.metrics, args.push_gateway)


def test_there_are_as_many_shards_as_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "15")
    (job,) = (document["spec"] for document in documents("indexed-job.yaml") if document["kind"] == "Job")
    args = build_parser("mirror").parse_args(mirror_arguments("indexed-job.yaml"))
    assert job["completionMode"] == "Indexed"
    assert options_of(args, RunOptions).shard == Shard(15, job["completions"])


def test_the_night_has_metrics() -> None:
    args = build_parser("mirror").parse_args(mirror_arguments("cronjob.yaml"))
    assert (args.push_gateway, args.metrics_name) == ("http://pushgateway.monitoring:9091", "nightly")


def test_the_cluster_of_dask_fits_together() -> None:
    found = documents("dask.yaml")
    (service,) = (each for each in found if each["kind"] == "Service")
    scheduler, worker = (each["spec"] for each in found if each["kind"] == "Deployment")
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    labels = scheduler["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == scheduler["selector"]["matchLabels"]
    assert worker["selector"]["matchLabels"] == worker["template"]["metadata"]["labels"] != labels

    options = {}
    for kind, spec in (("scheduler", scheduler), ("worker", worker)):
        (container,) = spec["template"]["spec"]["containers"]
        assert container["command"] == ["dask", kind]
        # The commands check names and values of their options; nothing is started.
        command = import_module(f"distributed.cli.dask_{kind}").main
        options[kind] = command.make_context(f"dask {kind}", list(container["args"])).params
    assert options["scheduler"]["port"] == str(service["spec"]["ports"][0]["port"])
    assert options["worker"]["scheduler"] == address

    args = build_parser("mirror").parse_args(mirror_arguments("dask.yaml"))
    assert (args.executor, args.scheduler) == ("dask", address)
    assert args.workers == worker["replicas"] * options["worker"]["nthreads"]

    (policy,) = (each["spec"] for each in found if each["kind"] == "NetworkPolicy")
    (rule,) = policy["ingress"]
    (allowed,) = rule["from"]
    assert allowed["podSelector"] == policy["podSelector"]
    templates = [each["spec"]["template"] for each in found if each["kind"] in ("Deployment", "Job")]
    assert len(templates) == 3
    for template in templates:
        assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("name", FILES)
def test_its_pods_may_do_little_and_have_what_they_need(name: str) -> None:
    secrets = {each["metadata"]["name"] for each in documents(name) if each["kind"] == "Secret"}
    for pod in pods(name):
        context = pod["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"], context["fsGroup"]) == (True, USER, USER)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]
            places = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
            env = {each["name"]: each["value"] for each in container["env"]}
            if "DOCKER_CONFIG" in env:
                secret = places[env["DOCKER_CONFIG"]]["secret"]
                assert secret["secretName"] in secrets
                assert [item["path"] for item in secret["items"]] == ["config.json"]
            # Whatever is written has to be on a volume, as the root file system is read-only.
            for variable in {"XDG_CACHE_HOME", "HOME"} & env.keys():
                assert places[env[variable]].keys() & {"emptyDir", "persistentVolumeClaim"}
            if "command" not in container:
                assert {"XDG_CACHE_HOME", "DOCKER_CONFIG"} <= env.keys()


@pytest.mark.parametrize("name", FILES)
def test_all_images_are_the_same(name: str) -> None:
    assert {container["image"] for container in containers(name)} == {"registry.example.org/tools/ocibridge:v1"}

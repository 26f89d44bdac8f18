# SPDX-License-Identifier: Apache-2.0
"""What `volume manifest` writes is what the API servers of several versions of Kubernetes accept."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator

import ocibridge
from ocibridge.volume.options import Kind

from ..registry import RegistryServer

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = ("1.31", "1.33", "1.35", "1.37")
KINDS = ("Pod", "Deployment", "DaemonSet", "InitContainer")
SUB_PATH = {"sub_path": "models"}
OURS = "example.com/ocibridge:1"
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "secret": {"pull_secret": "registry", "name": "digits"},
    "mounted elsewhere": {"mount_path": "/srv/model", "image": "example.com/server:1"},
}


@functools.cache
def validators(version: str) -> dict[tuple[str, str], Draft4Validator]:
    """A validator for each apiVersion and kind, as strict as `kubectl apply --validate=strict`."""
    document = json.loads(gzip.decompress((FIXTURES / "kubernetes" / f"{version}.json.gz").read_bytes()))
    found = {}
    for name, schema in document["definitions"].items():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        # The document is of OpenAPI 2, which has no word for "a number or a string".
        if schema.get("format") == "int-or-string":
            del schema["type"]
        for each in schema.get("x-kubernetes-group-version-kind", []):
            api = f"{each['group']}/{each['version']}" if each["group"] else each["version"]
            found[api, each["kind"]] = Draft4Validator({"$ref": f"#/definitions/{name}", **document})
    return found


def errors(version: str, document: dict[str, Any]) -> list[str]:
    validator = validators(version)[document["apiVersion"], document["kind"]]
    return [f"{'/'.join(map(str, each.absolute_path))}: {each.message}" for each in validator.iter_errors(document)]


@pytest.fixture(scope="module")
def published(registry: RegistryServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of Hugging Face's kind, below models/ in its layers, with an image."""
    folder = tmp_path_factory.mktemp("model")
    with tarfile.open(FIXTURES / "hf-digits.tar") as archive:
        archive.extractall(folder, filter="data")
    target = f"{registry.host}/test/kubernetes/digits:v1"
    ocibridge.push(folder, target, ocibridge.PushOptions(also=["image"], prefix="models/", cache=False))
    return target


def manifest(target: str, kind: Kind, version: str, **options: Any) -> ocibridge.VolumeManifestReport:
    if kind == "InitContainer":
        options["ocibridge_image"] = OURS
    return ocibridge.volume_manifest(
        target, ocibridge.VolumeManifestOptions(kind=kind, kubernetes_version=version, **options)
    )


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_follows_the_schema(version: str, kind: Kind, options: dict[str, Any], published: str) -> None:
    report = manifest(published, kind, version, **options)
    documents = list(yaml.safe_load_all(report.yaml))
    assert documents == report.documents
    assert documents
    for document in documents:
        assert errors(version, document) == []


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_sub_paths_follow_the_schema(version: str, kind: Kind, published: str) -> None:
    report = manifest(published, kind, version, **SUB_PATH)
    assert '"subPath":' in json.dumps(report.documents)
    assert [errors(version, document) for document in report.documents] == [[]]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_validator_can_fail(version: str, published: str) -> None:
    (pod,) = ocibridge.volume_manifest(published, ocibridge.VolumeManifestOptions(kubernetes_version=version)).documents
    typo = copy.deepcopy(pod)
    typo["spec"]["containers"][0]["volumeMounts"][0]["readonly"] = True
    assert len(errors(version, typo)) == 1
    missing = copy.deepcopy(pod)
    del missing["spec"]["containers"]
    assert len(errors(version, missing)) == 1
    wrong = copy.deepcopy(pod)
    wrong["spec"]["volumes"][0]["image"]["reference"] = 1
    assert len(errors(version, wrong)) == 1


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet", "InferenceService"])
@pytest.mark.parametrize(
    ("version", "options"), [("1.30", {}), ("1.31", SUB_PATH), ("1.32", SUB_PATH)], ids=["1.30", "1.31", "1.32"]
)
def test_what_a_version_cannot_do_is_refused(version: str, options: dict[str, Any], kind: Kind, published: str) -> None:
    """The schemas of all versions have the same fields of an image volume, so this is for the program to know."""
    if kind == "InferenceService":
        options = {}  # it has a sub path without being told
    with pytest.raises(ocibridge.UsageError, match=rf"Kubernetes {version} .*1\.3[13] is the first version"):
        ocibridge.volume_manifest(
            published, ocibridge.VolumeManifestOptions(kind=kind, kubernetes_version=version, **options)
        )


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_service_of_kserve(version: str, published: str) -> None:
    """KServe's schema is in no package, so this is what its documentation says of the fields that are written:
    https://kserve.github.io/website/docs/reference/crd-api, InferenceServiceSpec, PredictorSpec and ModelSpec.
    """
    report = ocibridge.volume_manifest(
        published,
        ocibridge.VolumeManifestOptions(
            kind="InferenceService", kubernetes_version=version, name="digits", pull_secret="registry"
        ),
    )
    (service,) = list(yaml.safe_load_all(report.yaml))
    assert service == report.documents[0]
    assert service.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    assert service["metadata"]["name"] == "digits"
    predictor = service["spec"].pop("predictor")
    assert service["spec"] == {}
    model = predictor.pop("model")
    assert model.keys() <= {"modelFormat", "storageUri", "resources", "runtime", "protocolVersion", "args", "env"}
    assert model["modelFormat"] == {"name": "huggingface"}
    assert model["storageUri"] == f"oci+native://{report.image}"
    # The rest of a predictor is the spec of a pod (PodSpec), resources are those of its containers.
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": service["metadata"], "spec": predictor}
    container = {"name": "kserve-container", "image": "example.com/runtime:1", "resources": model["resources"]}
    predictor["containers"] = [container]
    assert errors(version, pod) == []
    assert predictor["imagePullSecrets"] == [{"name": "registry"}]

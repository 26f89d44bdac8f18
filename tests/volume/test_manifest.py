# SPDX-License-Identifier: Apache-2.0
"""`volume manifest`: valid YAML, pinned, and only what the version of Kubernetes takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import ocibridge
from ocibridge.cli.main import main
from ocibridge.errors import FormatError, NotFound, UsageError
from ocibridge.oci import parse_reference
from ocibridge.stores.opening import open_store
from ocibridge.volume.emit import to_yaml
from ocibridge.volume.manifests import volume_manifest
from ocibridge.volume.options import KINDS, Kind, VolumeManifestOptions
from ocibridge.volume.reports import VolumeManifestReport

from ..registry import RegistryServer
from .artifacts import Bench, kitops, two_writers

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "tests" / "fixtures" / "digits.carton"
Push = Callable[..., str]
OURS = "registry.example.com/ocibridge:v1"
_PINNED = re.compile(r"127\.0\.0\.1:\d+/test/[0-9a-f]{12}@sha256:[0-9a-f]{64}")


@pytest.fixture
def push(registry: RegistryServer, repository: str) -> Push:
    """Pushes the digits, and gives the reference with the tag."""

    def run(tag: str = "v1", **options: Any) -> str:
        target = f"{registry.host}/{repository}:{tag}"
        ocibridge.push(DIGITS, target, ocibridge.PushOptions(**options))
        return target

    return run


def pod_spec(report: VolumeManifestReport) -> dict[str, Any]:
    document = report.documents[0]
    spec: dict[str, Any] = document["spec"]
    return spec["template"]["spec"] if "template" in spec else spec


@pytest.mark.parametrize("kind", KINDS)
def test_the_yaml_says_what_the_documents_say(kind: Kind, push: Push) -> None:
    target = push(also=["image"], prefix="models/")
    ours = OURS if kind == "InitContainer" else None
    options = VolumeManifestOptions(kind=kind, name="digits", pull_secret="registry-login", ocibridge_image=ours)
    report = volume_manifest(target, options)
    assert list(yaml.safe_load_all(report.yaml)) == report.documents
    assert report.documents[0]["metadata"]["name"] == "digits"
    assert "registry-login" in report.yaml
    assert _PINNED.fullmatch(report.image)
    assert report.image in report.yaml
    assert report.source in report.yaml
    assert not report.yaml.endswith("\n\n")
    assert all(len(line) < 250 for line in report.yaml.splitlines())


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet"])
def test_pods_mount_the_image_of_the_artifact(kind: Kind, push: Push) -> None:
    target = push(also=["image"])
    checked = ocibridge.volume_check(target)
    assert checked.companion is not None
    report = volume_manifest(target, VolumeManifestOptions(kind=kind))
    assert (report.image, report.source) == (checked.companion.reference, checked.source)
    spec = pod_spec(report)
    assert spec["volumes"] == [{"name": "model", "image": {"reference": report.image, "pullPolicy": "IfNotPresent"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "model", "mountPath": "/models", "readOnly": True}]
    document = report.documents[0]
    if kind == "Pod":
        assert document["apiVersion"] == "v1"
    else:
        labels = document["spec"]["template"]["metadata"]["labels"]
        assert labels == document["spec"]["selector"]["matchLabels"]


def test_an_image_may_be_named_itself(push: Push) -> None:
    target = push(also=["image"])
    assert volume_manifest(f"{target}-image").yaml == volume_manifest(target).yaml
    assert volume_manifest(volume_manifest(target).image).yaml == volume_manifest(target).yaml
    draft = push("draft", dialect="draft")
    report = volume_manifest(draft)
    assert report.image == report.source


def test_room_is_asked_for_twice(push: Push) -> None:
    target = push(also=["image"])
    report = volume_manifest(target)
    stored = sum(each.size for each in ocibridge.inspect(target).layers)
    files = sum(each.size for each in ocibridge.volume_check(report.image).runtimes[0].files)
    asked = pod_spec(report)["containers"][0]["resources"]["requests"]["ephemeral-storage"]
    assert (int(asked[:-2]) - 1) * 2**20 < stored + files <= int(asked[:-2]) * 2**20
    assert "twice the model" in report.yaml


def test_options(push: Push) -> None:
    target = push(also=["image"], prefix="models/")
    report = volume_manifest(
        target,
        VolumeManifestOptions(
            name="my-model",
            image="vllm/vllm-openai:v1",
            mount_path="/srv/model",
            sub_path="models",
            pull_policy="Always",
        ),
    )
    spec = pod_spec(report)
    assert spec["containers"][0]["image"] == "vllm/vllm-openai:v1"
    assert "command" not in spec["containers"][0]
    mount = {"name": "model", "mountPath": "/srv/model", "readOnly": True, "subPath": "models"}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"
    assert "containerd 2.2 or CRI-O 1.33" in report.yaml
    assert any("2.1 ignores subPath" in note for note in report.notes)


def test_kserve(push: Push) -> None:
    target = push(also=["image"], prefix="models/")
    report = volume_manifest(target, VolumeManifestOptions(kind="InferenceService"))
    predictor = report.documents[0]["spec"]["predictor"]
    assert predictor["model"]["storageUri"] == f"oci+native://{report.image}"
    assert predictor["model"]["modelFormat"] == {"name": "pytorch"}
    named = volume_manifest(target, VolumeManifestOptions(kind="InferenceService", model_format="triton"))
    assert named.documents[0]["spec"]["predictor"]["model"]["modelFormat"] == {"name": "triton"}


def test_kserve_wants_the_folder(push: Push) -> None:
    target = push(also=["image"])
    with pytest.raises(UsageError) as caught:
        volume_manifest(target, VolumeManifestOptions(kind="InferenceService"))
    assert "--prefix models/ --also image" in (caught.value.hint or "")


def test_an_init_container_pulls_the_artifact(push: Push) -> None:
    target = push()
    report = volume_manifest(
        target,
        VolumeManifestOptions(
            kind="InitContainer", kubernetes_version="1.28", pull_secret="login", ocibridge_image=OURS
        ),
    )
    spec = pod_spec(report)
    init = spec["initContainers"][0]
    assert init["image"] == OURS
    assert init["args"][:3] == ["pull", report.source, "/work/model"]
    assert init["securityContext"]["runAsNonRoot"]
    assert [note for note in report.notes if "which no node can pull from" not in note] == []
    assert all("image" not in volume for volume in spec["volumes"])
    assert spec["volumes"][1]["secret"]["secretName"] == "login"
    assert spec["containers"][0]["volumeMounts"][0]["subPath"] == "model"
    partly = pod_spec(
        volume_manifest(target, VolumeManifestOptions(kind="InitContainer", ocibridge_image=OURS, sub_path="model"))
    )
    assert partly["containers"][0]["volumeMounts"][0]["subPath"] == "model/model"


def test_the_init_container_finds_the_artifact_of_an_image(push: Push) -> None:
    target = push(also=["image"])
    by_image = volume_manifest(f"{target}-image", VolumeManifestOptions(kind="InitContainer", ocibridge_image=OURS))
    assert (
        by_image.yaml == volume_manifest(target, VolumeManifestOptions(kind="InitContainer", ocibridge_image=OURS)).yaml
    )


def test_the_command_of_the_init_container_runs(push: Push, tmp_path: Path) -> None:
    spec = pod_spec(volume_manifest(push(), VolumeManifestOptions(kind="InitContainer", ocibridge_image=OURS)))
    arguments = [each.replace("/work", str(tmp_path)) for each in spec["initContainers"][0]["args"]]
    for _ in range(2):  # an init container may run again
        assert main(arguments) == 0
    assert ocibridge.verify(tmp_path / "model").identity == ocibridge.inspect(DIGITS).identity


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.31", "alpha and off"),
        ("1.32", "alpha and off"),
        ("1.33", "beta and off"),
        ("v1.34.2+k3s1", "beta and off"),
        ("1.35", None),
        ("1.36", None),
        ("1.40", None),
    ],
)
def test_the_feature_gate_is_named(version: str, expected: str | None, push: Push) -> None:
    report = volume_manifest(push(also=["image"]), VolumeManifestOptions(kubernetes_version=version))
    gates = [note for note in report.notes if "--feature-gates=ImageVolume=true" in note]
    assert [expected in note for note in gates if expected] == ([True] if expected else [])
    assert bool(gates) is bool(expected)
    assert all(f"# {note}\n" in report.yaml for note in report.notes)
    assert any("containerd 2.1 or CRI-O 1.31" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"kubernetes_version": "1.30"}, "has no image volumes", "--kind InitContainer"),
        ({"kubernetes_version": "1.30", "kind": "DaemonSet"}, "has no image volumes", "--kind InitContainer"),
        ({"kubernetes_version": "1.32", "sub_path": "models"}, "refuses a subPath", "mount the whole image"),
        ({"kubernetes_version": "1.32", "kind": "InferenceService"}, "refuses a subPath", "--kind InitContainer"),
        ({"kubernetes_version": "new"}, "no version of Kubernetes", "1.33"),
        ({"kind": "CronJob"}, "kind cannot be", "Pod, Deployment"),
        ({"name": "No Name"}, "no name for an object", "lower-case"),
        ({"mount_path": "models"}, "no path to mount at", "/models"),
        ({"mount_path": "/a:b"}, "no path to mount at", "/models"),
        ({"sub_path": "../x"}, "no path in a volume", "models"),
        ({"sub_path": "absent"}, "has no folder 'absent'", "volume check"),
        ({"pull_policy": "Sometimes"}, "--pull-policy cannot be", "IfNotPresent"),
        ({"kind": "InferenceService", "mount_path": "/models"}, "no use for --mount-path", "leave out"),
        ({"kind": "InferenceService", "image": "x"}, "no use for --image", "leave out"),
        ({"kind": "InitContainer", "pull_policy": "Always"}, "no use for --pull-policy", "leave out"),
        ({"kind": "InitContainer"}, "of which no image is published", "docker build --tag HOST/ocibridge:v1 ."),
        ({"kind": "InitContainer", "ocibridge_image": "a.b:1/ocibridge"}, "has no tag", "a.b:1/ocibridge:v1"),
        ({"kind": "Deployment", "ocibridge_image": OURS}, "no use for --ocibridge-image", "leave out"),
        ({"kind": "DaemonSet", "server": "vllm"}, "no use for --server", "leave out"),
        ({"model_format": "onnx"}, "no use for --model-format", "leave out"),
        ({"image": "vllm/vllm-openai"}, "has no tag", "vllm/vllm-openai:v1"),
        ({"args": ["--verbose"]}, "--args is for a container", "--image"),
        ({"gpu": 1}, "--gpu is for a container", "--image"),
        ({"command": ["serve"], "server": "triton"}, "--command is for a container", "--image"),
        ({"command": ["serve"], "server": "triton", "image": "x:1"}, "a command of its own", "--args"),
        ({"image": "x:1", "gpu": -1}, "no -1 GPUs", "such as 1"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, hint: str, push: Push) -> None:
    target = push(also=["image"], prefix="models/")
    with pytest.raises(UsageError) as caught:
        volume_manifest(target, VolumeManifestOptions(**options))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_an_artifact_without_an_image(push: Push) -> None:
    target = push()
    with pytest.raises(NotFound) as caught:
        volume_manifest(target)
    assert caught.value.hint == f"run 'ocibridge volume prepare {target}' first"
    ocibridge.volume_prepare(target)
    assert volume_manifest(target).image != volume_manifest(target).source


def test_what_prepare_cannot_help(registry: RegistryServer, repository: str) -> None:
    target = f"{registry.host}/{repository}"
    with open_store(parse_reference(target)) as store:
        kitops(Bench(store), "kit")
        two_writers(Bench(store), "conflict")
    with pytest.raises(NotFound) as caught:
        volume_manifest(f"{target}:kit")
    assert "volume check" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="is no model artifact"):
        volume_manifest(f"{target}:kit", VolumeManifestOptions(kind="InitContainer", ocibridge_image=OURS))
    with pytest.raises(NotFound):
        volume_manifest(f"{target}:conflict")


def test_an_image_that_would_not_mount(registry: RegistryServer, repository: str) -> None:
    target = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(DIGITS, target)
    with open_store(parse_reference(target)) as store:
        subject = store.resolve(pushed.digest).model_dump(by_alias=True, exclude_none=True)
        Bench(store).index("v1-image", [], subject=subject)
    with pytest.raises(FormatError, match="would not mount"):
        volume_manifest(target)


def test_pods_do_not_pull_from_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pods cannot pull from"):
        volume_manifest(f"oci:{tmp_path}:v1")


def test_the_command(push: Push, capsys: pytest.CaptureFixture[str]) -> None:
    target = push(also=["image"])
    assert main(["volume", "manifest", target, "--kubernetes-version", "1.33"]) == 0
    out, err = capsys.readouterr()
    assert out == volume_manifest(target, VolumeManifestOptions(kubernetes_version="1.33")).yaml
    assert "--feature-gates=ImageVolume=true" in err
    assert main(["volume", "manifest", target, "--json", "--kind", "Deployment"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "schemas" / "volume-manifest.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(document)
    assert document["documents"][0]["kind"] == "Deployment"


def test_names_are_made_of_the_repository(registry: RegistryServer, repository: str) -> None:
    target = f"{registry.host}/{repository}/my_model.v2"
    ocibridge.push(DIGITS, target, ocibridge.PushOptions(dialect="draft"))
    assert volume_manifest(target).documents[0]["metadata"]["name"] == "my-model-v2"


@pytest.mark.parametrize(
    "value",
    [
        *(
            "true",
            "No",
            "null",
            "1.35",
            "1e3",
            "",
            " x",
            "a: b",
            "a #b",
            "x:",
            "@a",
            "- a",
            "12:30",
            "0x1",
            "~",
            "é",
            "a\nb",
        ),
        *("docker.io/library/busybox:1.37", "localhost:5000/a@sha256:00", "/models", "oci+native://a/b@sha256:1"),
        *(1, True, False, 1.5, [], {}, ["a", ["b", {"c": [{}]}]], [{"a": 1, "b": [2]}]),
    ],
    ids=repr,
)
def test_yaml_reads_back(value: object) -> None:
    document = {"key": value, "list": [value, {"inner": value}]}
    comments = {("key",): "a comment " * 30, ("list", 1): "one: more", ("list", 1, "inner"): "# deep"}
    text = to_yaml(document, comments)
    assert yaml.safe_load(text) == document
    assert text.count("#") >= 5

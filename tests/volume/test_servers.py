# SPDX-License-Identifier: Apache-2.0
"""`volume manifest --server`: what runs is told where the mounted model is, in the words of each server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import ocibridge
from ocibridge.cli.main import main
from ocibridge.errors import NotFound, UsageError
from ocibridge.volume.manifests import volume_manifest
from ocibridge.volume.options import SERVERS, Kind, Server, VolumeManifestOptions

from ..registry import RegistryServer
from .test_kubernetes_schemas import VERSIONS, errors

OURS = "registry.example.com/ocibridge:v1"
MODELS: dict[Server, dict[str, bytes]] = {
    "vllm": {"config.json": b'{"model_type": "x"}', "model.safetensors": b"\2\0\0\0\0\0\0\0{}"},
    "llama.cpp": {"tiny.gguf": b"GGUF", "README.md": b"# tiny\n"},
    "triton": {"digits/config.pbtxt": b'name: "digits"', "digits/1/model.onnx": b"onnx"},
}
IMAGES = {
    "vllm": "docker.io/vllm/vllm-openai:v",
    "llama.cpp": "ghcr.io/ggml-org/llama.cpp:server-b",
    "triton": "nvcr.io/nvidia/tritonserver:26.",
}


class Models:
    """Publishes folders of some files, each under a tag of its own."""

    def __init__(self, host: str, repository: str, place: Path) -> None:
        self._name, self._place, self._count = f"{host}/{repository}", place, 0

    def push(self, files: dict[str, bytes], **options: Any) -> str:
        self._count += 1
        folder = self._place / str(self._count)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        target = f"{self._name}:v{self._count}"
        ocibridge.push(folder, target, ocibridge.PushOptions(**options))
        return target


@pytest.fixture
def models(registry: RegistryServer, repository: str, tmp_path: Path) -> Models:
    return Models(registry.host, f"{repository}/tiny", tmp_path)


def pod(target: str, **options: Any) -> dict[str, Any]:
    """The spec of the pod, which every version of Kubernetes with image volumes accepts."""
    report = volume_manifest(target, VolumeManifestOptions(**options))
    (document,) = yaml.safe_load_all(report.yaml)
    assert [errors(version, document) for version in VERSIONS] == [[]] * len(VERSIONS)
    spec: dict[str, Any] = document["spec"]
    return spec["template"]["spec"] if "template" in spec else spec


def container(target: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = pod(target, **options)["containers"][0]
    return found


def words(found: dict[str, Any]) -> str:
    return " ".join([*found.get("command", ()), *found.get("args", ())])


@pytest.mark.parametrize(
    ("server", "expected", "port", "health"),
    [
        ("vllm", "vllm serve /models --served-model-name tiny", 8000, "/health"),
        ("llama.cpp", "--model /models/tiny.gguf --alias tiny --host 0.0.0.0 --port 8080", 8080, "/health"),
        ("triton", "tritonserver --model-repository=/models", 8000, "/v2/health/ready"),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "InitContainer"])
def test_each_server_serves_the_mounted_model(
    server: Server, expected: str, port: int, health: str, kind: Kind, models: Models
) -> None:
    target = models.push(MODELS[server], also=["image"])
    ours = {"ocibridge_image": OURS} if kind == "InitContainer" else {}
    found = container(target, server=server, kind=kind, **ours)
    assert words(found) == expected
    assert found["image"].startswith(IMAGES[server])
    assert found["ports"] == [{"name": "http", "containerPort": port}]
    for probe in ("startupProbe", "readinessProbe"):
        assert found[probe]["httpGet"] == {"path": health, "port": "http"}
    assert found["volumeMounts"][0]["mountPath"] == "/models"
    gpus = {"limits": {"nvidia.com/gpu": "1"}} if server == "vllm" else {}
    assert {key: value for key, value in found.get("resources", {}).items() if key == "limits"} == gpus


@pytest.mark.parametrize("server", SERVERS)
def test_a_prefix_is_part_of_the_mounted_path_and_not_of_the_pulled_one(server: Server, models: Models) -> None:
    target = models.push(MODELS[server], also=["image"], prefix="models/")
    assert "/srv/models" in words(container(target, server=server, mount_path="/srv"))
    assert "/srv/models" not in words(container(target, server=server, mount_path="/srv", sub_path="models"))
    pulled = container(target, server=server, mount_path="/srv", kind="InitContainer", ocibridge_image=OURS)
    assert "/srv" in words(pulled)
    assert "/srv/models" not in words(pulled)


def test_a_prefix_makes_the_folders_of_triton(models: Models) -> None:
    target = models.push({"model.onnx": b"onnx"})
    with pytest.raises(NotFound):
        container(target, server="triton")
    ocibridge.volume_prepare(target)
    with pytest.raises(UsageError, match="MODEL/VERSION/FILE") as caught:
        container(target, server="triton")
    assert "--prefix tiny/1/" in (caught.value.hint or "")
    target = models.push({"model.onnx": b"onnx"}, prefix="tiny/1/", also=["image"])
    assert words(container(target, server="triton")) == "tritonserver --model-repository=/models"


def test_gpus(models: Models) -> None:
    vllm = models.push(MODELS["vllm"], also=["image"])
    spec = pod(vllm, server="vllm", gpu=4)
    assert "--tensor-parallel-size 4" in words(spec["containers"][0])
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert spec["containers"][0]["volumeMounts"][1] == {"name": "shared-memory", "mountPath": "/dev/shm"}
    assert spec["volumes"][1] == {"name": "shared-memory", "emptyDir": {"medium": "Memory"}}
    assert "limits" not in container(vllm, server="vllm", gpu=0)["resources"]
    llama = container(models.push(MODELS["llama.cpp"], also=["image"]), server="llama.cpp", gpu=1)
    assert ":server-cuda-b" in llama["image"]
    assert "--n-gpu-layers" in words(llama)
    other = container(vllm, image="example.com/server:1", gpu=2)
    assert other["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_arguments_of_the_user(models: Models) -> None:
    target = models.push(MODELS["vllm"], also=["image"])
    found = container(target, server="vllm", args=["--max-model-len", "4096"], image="example.com/vllm:1")
    assert words(found).endswith("--served-model-name tiny --max-model-len 4096")
    assert found["image"] == "example.com/vllm:1"
    own = container(target, image="example.com/server:1", command=["serve"], args=["--model=/models"])
    assert (own["command"], own["args"]) == (["serve"], ["--model=/models"])
    assert "ports" not in own


def test_a_split_gguf_is_named_by_its_first_file(models: Models) -> None:
    files = {f"big-{number:05}-of-00002.gguf": b"GGUF%d" % number for number in (1, 2)} | {"mmproj-big.gguf": b"GGUF"}
    found = container(models.push(files, also=["image"]), server="llama.cpp")
    assert words(found).startswith("--model /models/big-00001-of-00002.gguf --mmproj /models/mmproj-big.gguf --alias")


@pytest.mark.parametrize(
    ("server", "files", "message", "hint"),
    [
        ("vllm", MODELS["llama.cpp"], "no folder with config.json and", "--server"),
        ("vllm", {"a/config.json": b"{}", "b/model.safetensors": b"x"}, "no folder with config.json and", "--server"),
        ("llama.cpp", MODELS["vllm"], "no GGUF files", "--server"),
        ("llama.cpp", {"q4/a.gguf": b"GGUF", "q8/b.gguf": b"GGUF8"}, "has 2 GGUF files", "--sub-path"),
        ("triton", MODELS["vllm"], "MODEL/VERSION/FILE", "--prefix tiny/1/"),
    ],
)
def test_a_model_that_a_server_does_not_serve(
    server: Server, files: dict[str, bytes], message: str, hint: str, models: Models
) -> None:
    target = models.push(files, also=["image"])
    with pytest.raises(UsageError, match=message) as caught:
        container(target, server=server)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ["Pod", "InitContainer"])
def test_one_of_several_is_chosen_by_its_folder(kind: Kind, models: Models) -> None:
    target = models.push({"q4/a.gguf": b"GGUF", "q8/b.gguf": b"GGUF8"}, also=["image"])
    ours = OURS if kind == "InitContainer" else None
    found = container(target, kind=kind, server="llama.cpp", sub_path="q8", ocibridge_image=ours)
    assert "--model /models/b.gguf" in words(found)
    assert found["volumeMounts"][0]["subPath"] == ("q8" if kind == "Pod" else "model/q8")
    with pytest.raises(UsageError, match="has no folder 'models'"):
        container(target, kind=kind, sub_path="models", ocibridge_image=ours)


def test_the_words_of_the_command_line(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    target = models.push(MODELS["vllm"], also=["image"])
    flags = ["--server", "vllm", "--args", "--max-model-len 4096 --chat-template '/models/a b'", "--gpu", "2"]
    assert main(["volume", "manifest", target, *flags]) == 0
    out = capsys.readouterr().out
    (document,) = yaml.safe_load_all(out)
    assert document["spec"]["containers"][0]["args"][-4:] == [
        "--max-model-len",
        "4096",
        "--chat-template",
        "/models/a b",
    ]
    assert main(["volume", "manifest", target, "--image", "x:1"]) == 0
    assert (
        "x:1 gets no arguments; if it does not look in /models itself, add --args or --server"
        in capsys.readouterr().err
    )
    assert main(["volume", "manifest", target, "--image", "x:1", "--args=--verbose", "--gpu", "0"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gpu", "many"], "'many' is no whole number"),
        (["--gpu=-1"], "'-1' is no whole number"),
        (["--args", "'"], "No closing quotation"),
        (["--args", "--verbose"], "write --args=VALUE if its value begins with a dash."),
        (["--server", "ollama"], "--server cannot be 'ollama'"),
    ],
)
def test_mistakes_of_the_command_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["volume", "manifest", "localhost:5000/models/digits:v1", "--image", "x:1", *flags]) == 2
    assert message in capsys.readouterr().err


# nodes with CRI-O


def test_an_artifact_that_crio_mounts_as_it_is(models: Models) -> None:
    target = models.push(MODELS["llama.cpp"], layers="raw-files")
    with pytest.raises(NotFound) as caught:
        volume_manifest(target)
    assert f"run 'ocibridge volume prepare {target}' first" in (caught.value.hint or "")
    assert "--runtime cri-o if the nodes have CRI-O 1.33" in (caught.value.hint or "")
    report = volume_manifest(target, VolumeManifestOptions(runtime="cri-o", server="llama.cpp"))
    assert report.image == report.source == ocibridge.volume_check(target).source
    assert any("need CRI-O 1.33 or later" in note for note in report.notes)
    assert "the model once" in report.yaml
    found = container(target, runtime="cri-o", server="llama.cpp")
    assert "--model /models/tiny.gguf" in words(found)
    stored = sum(len(data) for data in MODELS["llama.cpp"].values())
    assert stored < 2**20
    assert found["resources"]["requests"]["ephemeral-storage"] == "1Mi"


def test_crio_gets_the_artifact_where_there_is_an_image_too(models: Models) -> None:
    target = models.push(MODELS["llama.cpp"], layers="raw-files", also=["image"])
    artifact, image = (ocibridge.volume_check(each).source for each in (target, f"{target}-image"))
    assert volume_manifest(target).image == image
    assert volume_manifest(target, VolumeManifestOptions(runtime="cri-o")).image == artifact


def test_an_artifact_of_tars_needs_its_image_with_crio_too(models: Models) -> None:
    target = models.push(MODELS["llama.cpp"])
    with pytest.raises(NotFound) as caught:
        volume_manifest(target, VolumeManifestOptions(runtime="cri-o"))
    assert "--runtime" not in (caught.value.hint or "")
    prepared = ocibridge.volume_prepare(target)
    assert volume_manifest(target, VolumeManifestOptions(runtime="cri-o")).image == prepared.reference


def test_the_next_step_for_a_digest_helps(models: Models) -> None:
    target = models.push(MODELS["llama.cpp"])
    pinned = ocibridge.volume_check(target).source
    assert "@sha256:" in pinned
    with pytest.raises(NotFound) as caught:
        volume_manifest(pinned)
    command = (caught.value.hint or "").split("'")[1]
    assert main(command.split()[1:]) == 0
    assert volume_manifest(pinned).source == pinned
    assert ocibridge.volume_check(pinned).runtimes[0].repair == f"ocibridge volume manifest {pinned} --kind Pod"


# registries that no node reaches


def test_a_registry_on_this_machine_is_warned_of(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    target = models.push(MODELS["llama.cpp"], also=["image"])
    host = target.partition("/")[0]
    note = f"{host} is this machine, which no node can pull from: push the model to a registry for them"
    assert main(["volume", "manifest", target]) == 0
    out, err = capsys.readouterr()
    assert note in err
    assert f"# {note}\n" in out

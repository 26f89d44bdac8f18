# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/kubernetes anew: what the tests need of the OpenAPI documents that Kubernetes publishes.

usage: python -m tests.tools.kubernetes_schemas      (needs Go; fetches about 20 MB for each version)
"""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

VERSIONS = ("1.31.14", "1.33.13", "1.35.4", "1.37.0")
FOLDER = Path(__file__).parents[1] / "fixtures" / "kubernetes"
_KINDS = (
    "core.v1.Pod",
    "core.v1.ConfigMap",
    "core.v1.Secret",
    "core.v1.Service",
    "core.v1.PersistentVolumeClaim",
    "apps.v1.Deployment",
    "apps.v1.DaemonSet",
    "batch.v1.Job",
    "batch.v1.CronJob",
    "networking.v1.NetworkPolicy",
)


def subset(document: dict[str, Any]) -> dict[str, Any]:
    """The definitions of the kinds of the tests and of all that these refer to, without the prose."""
    found: dict[str, Any] = {}
    waiting = [f"io.k8s.api.{kind}" for kind in _KINDS]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _bare(document["definitions"][name], waiting)
    return {"definitions": found}


def _bare(node: Any, references: list[str]) -> Any:
    if isinstance(node, list):
        return [_bare(each, references) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        references.append(node["$ref"].removeprefix("#/definitions/"))
    # A property may be called "description" too; its value is a schema then.
    return {
        key: _bare(value, references) for key, value in node.items() if key != "description" or isinstance(value, dict)
    }


def main() -> None:
    for version in VERSIONS:
        command = ("go", "mod", "download", "-json", f"k8s.io/kubernetes@v{version}")
        module = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["Dir"]
        document = json.loads((Path(module) / "api" / "openapi-spec" / "swagger.json").read_bytes())
        text = json.dumps(subset(document), sort_keys=True, separators=(",", ":"))
        minor = ".".join(version.split(".")[:2])
        (FOLDER / f"{minor}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()

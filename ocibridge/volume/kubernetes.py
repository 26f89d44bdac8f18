# SPDX-License-Identifier: Apache-2.0
"""Support for image volumes by version of Kubernetes (KEP-4639, and `features` of kube-apiserver and kubelet)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import UsageError
from ..paths import show

_FIRST, _SUB_PATH, _ON, _STABLE = (1, 31), (1, 33), (1, 35), (1, 36)
_RUNTIMES = "containerd 2.1 or CRI-O 1.31"
_DIRECT_RUNTIMES = "CRI-O 1.33"
_SUB_PATH_RUNTIMES = "containerd 2.2 or CRI-O 1.33"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A version of Kubernetes.

    Attributes:
        version: Major and minor number.
    """

    version: tuple[int, int]

    def __str__(self) -> str:
        return f"Kubernetes {self.version[0]}.{self.version[1]}"

    @property
    def state(self) -> str:
        """State of the feature gate `ImageVolume`: none, alpha (off), beta (off), beta (on) or stable."""
        if self.version < _FIRST:
            return "none"
        if self.version < _SUB_PATH:
            return "alpha, off"
        if self.version < _ON:
            return "beta, off"
        return "beta, on" if self.version < _STABLE else "stable"

    @property
    def gate_needed(self) -> bool:
        """True if the feature gate is off by default."""
        return self.state.endswith(", off")

    def require_image_volumes(self, sub_path: bool) -> None:
        """Check that this version has image volumes.

        Args:
            sub_path: Require the field `subPath`, too.

        Raises:
            UsageError: it does not have them.
        """
        if self.version < _FIRST:
            raise UsageError(
                f"{self} has no image volumes, 1.31 is the first version that has them",
                hint="use --kind InitContainer, which pulls the model with ocibridge",
            )
        if sub_path and self.version < _SUB_PATH:
            raise UsageError(
                f"{self} refuses a subPath of an image volume, 1.33 is the first version that takes it",
                hint="mount the whole image, or use --kind InitContainer",
            )

    def notes(self, sub_path: bool, direct: bool = False) -> list[str]:
        """Requirements of the cluster, one sentence each.

        Args:
            sub_path: A folder of the volume is mounted.
            direct: The volume is an artifact, which only CRI-O mounts.
        """
        runtimes = _DIRECT_RUNTIMES if direct else _SUB_PATH_RUNTIMES if sub_path else _RUNTIMES
        notes = [f"the nodes need {runtimes} or later"]
        if direct:
            notes[0] += ": it mounts this artifact without an image, and containerd would mount an empty folder"
        elif sub_path:
            notes[0] += ": containerd 2.1 ignores subPath, and mounts the whole image"
        if self.gate_needed:
            notes.insert(
                0,
                f"image volumes are {self.state.partition(',')[0]} and off in {self}: "
                "start kube-apiserver and kubelet with --feature-gates=ImageVolume=true",
            )
        return notes


def parse_cluster(text: str) -> Cluster:
    """Parse a version such as `1.33`, or as the API server reports it, `v1.33.4+k3s1`.

    Raises:
        UsageError: it is not a version.
    """
    match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:[.+-].*)?", text)
    if not match:
        raise UsageError(f"{show(text)} is no version of Kubernetes", hint="give two numbers, such as 1.33")
    return Cluster((int(match[1]), int(match[2])))

# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume manifest`."""

from __future__ import annotations

import argparse
from typing import Any

from ..volume.options import VolumeManifestOptions
from . import options
from .output import say
from .running import show


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "manifest",
        "Print the YAML that gives pods a published model, pinned by digest.",
        (
            "ocibridge volume manifest registry.example.com/models/qwen:v1 --kind Deployment --server vllm",
            "ocibridge volume manifest registry.example.com/models/tiny:v1 | kubectl apply -f -",
        ),
    )
    parser.set_defaults(run=run)
    parser.add_argument("reference", metavar="REFERENCE", help="an artifact, whose image is found, or an image")
    options.add_flags(parser, VolumeManifestOptions)


def run(args: argparse.Namespace) -> None:
    """Print the YAML; what the cluster has to have goes to standard error, too."""
    chosen = options.options_of(args, VolumeManifestOptions)
    registry = options.registry_of(args)
    from ..volume.manifests import volume_manifest

    report = volume_manifest(args.reference, chosen, registry=registry)
    if not args.json:
        for note in report.notes:
            say(note)
    show(args, report, lambda report: [report.yaml.rstrip("\n")])

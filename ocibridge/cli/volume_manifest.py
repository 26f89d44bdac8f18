# SPDX-License-Identifier: Apache-2.0
"""`ocibridge volume manifest`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .output import result, say


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "manifest",
        "Print the YAML that gives pods a published model, pinned by digest.",
        "ocibridge volume manifest localhost:5000/models/digits:v1 --kind Deployment | kubectl apply -f -",
    )
    parser.set_defaults(run=run)
    parser.add_argument("reference", metavar="REFERENCE", help="an artifact, whose image is found, or an image")
    parser.add_argument(
        "--kind",
        choices=("Pod", "Deployment", "InferenceService", "DaemonSet", "InitContainer"),
        default="Pod",
        help="InferenceService is KServe's; a DaemonSet makes every node pull the image beforehand; InitContainer is a "
        "pod that pulls the model with ocibridge, for clusters without image volumes (default: Pod)",
    )
    parser.add_argument("--name", metavar="NAME", help="of the object (default: the end of the repository's name)")
    parser.add_argument("--mount-path", metavar="PATH", help="where the model is in the container (default: /models)")
    parser.add_argument("--sub-path", metavar="FOLDER", help="mount this folder of the image only")
    parser.add_argument("--image", metavar="IMAGE", help="what runs in the pod (default: one that lists the files)")
    parser.add_argument("--ocibridge-image", metavar="IMAGE", help="image of ocibridge, for InitContainer")
    parser.add_argument("--model-format", metavar="NAME", help="what KServe calls the format (default: by the files)")
    parser.add_argument(
        "--kubernetes-version", default="1.35", metavar="X.Y", help="of the cluster (default: %(default)s)"
    )
    parser.add_argument("--pull-secret", metavar="NAME", help="secret with the credentials of the registry")
    parser.add_argument(
        "--pull-policy", choices=("IfNotPresent", "Always", "Never"), help="of the image volume (default: IfNotPresent)"
    )
    options.add_json(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Print the YAML; what the cluster has to have goes to standard error, too."""
    registry = options.registry_options(args)
    from ..volume.manifests import volume_manifest
    from ..volume.options import VolumeManifestOptions

    report = volume_manifest(
        args.reference,
        VolumeManifestOptions(
            kind=args.kind,
            name=args.name,
            mount_path=args.mount_path,
            sub_path=args.sub_path,
            image=args.image,
            ocibridge_image=args.ocibridge_image,
            model_format=args.model_format,
            kubernetes_version=args.kubernetes_version,
            pull_secret=args.pull_secret,
            pull_policy=args.pull_policy,
        ),
        registry=registry,
    )
    if args.json:
        result(report.to_json())
        return
    for note in report.notes:
        say(note)
    result(report.yaml.rstrip("\n"))

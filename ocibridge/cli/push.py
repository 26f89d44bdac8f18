# SPDX-License-Identifier: Apache-2.0
"""`ocibridge push`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import options
from .output import human_size, human_time, result, say, warn
from .values import key_values, moment, role_rules

if TYPE_CHECKING:
    from ..operations.reports import PushedLayer, PushReport


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "push",
        "Publish a model as an OCI artifact.",
        "ocibridge push digits.carton localhost:5000/models/digits:v1",
        "run the same command again; layers that arrived whole are not sent again",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="path of a model archive or folder, ollama:NAME[:TAG], or ollama://HOST/NAMESPACE/NAME[:TAG]",
    )
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="HOST[:PORT]/REPOSITORY[:TAG] (or oci://HOST…, docker://HOST…), oci:DIR[:TAG] or oci-archive:FILE[:TAG]",
    )
    parser.add_argument(
        "--layers",
        choices=("tar", "raw", "raw-files"),
        help="tar layers, weights as they are, or every file as it is "
        "(default: tar; for a model of Ollama raw-files, unless --compress or --dialect draft is given)",
    )
    parser.add_argument(
        "--compress", choices=("none", "gzip", "zstd"), default="none", help="compress tar layers (default: none)"
    )
    options.add_dialect(parser, default="cnai")
    parser.add_argument(
        "--exact",
        "--keep-archive",
        action="store_true",
        help="carry the archive as it is, as one raw layer; a pull gives back its very bytes",
    )
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="GLOB=ROLE",
        help="role of the files of a folder that match: weight, weight.config, doc, code or dataset "
        "(may be given several times; the first match decides)",
    )
    parser.add_argument(
        "-a",
        "--annotation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="annotation of the manifest (may be given several times)",
    )
    parser.add_argument(
        "--created",
        type=moment,
        metavar="TIME",
        help="creation time to record, RFC 3339 or seconds since 1970 (default: SOURCE_DATE_EPOCH, else none)",
    )
    parser.add_argument(
        "--also",
        action="append",
        choices=("ollama", "image"),
        default=[],
        help="also publish the model's own Ollama manifest, under the tag TAG-ollama (needs raw-files layers), or an "
        "OCI image of the same layers, which pods can mount, under TAG-image",
    )
    options.add_platform(parser)
    parser.add_argument(
        "--prefix",
        default="",
        metavar="FOLDER",
        help="put all files into this folder inside the layers, such as models/; a pull takes it off again",
    )
    options.add_max_layers(parser)
    parser.add_argument(
        "--strip-from",
        action="store_true",
        help="leave the 'from' fields out of an Ollama manifest, which may hold local paths; its ID changes",
    )
    parser.add_argument(
        "--mount-from",
        action="append",
        default=[],
        metavar="REPOSITORY",
        help="repository of the same registry that may hold the blobs already (may be given several times)",
    )
    options.add_json(parser)
    options.add_links(parser)
    options.add_cache(parser)
    options.add_transfer(parser)
    options.add_registry(parser)


def run(args: argparse.Namespace) -> None:
    """Publish, and print the pinned reference."""
    annotations = key_values(args.annotation)
    roles = role_rules(args.role)
    links = options.links_options(args)
    registry = options.registry_options(args)
    from ..operations.options import PushOptions
    from ..operations.push import push
    from .progress import shown

    started = time.monotonic()
    with shown(args) as progress:
        report = push(
            args.source,
            args.target,
            PushOptions(
                layers=args.layers,
                compress=args.compress,
                dialect=args.dialect,
                exact=args.exact,
                annotations=annotations,
                created=args.created,
                reading={"roles": roles, "strip_from": args.strip_from, **links},
                also=args.also,
                prefix=args.prefix,
                **options.image_options(args),
                mount_from=args.mount_from,
                cache=args.cache,
                **options.transfer_options(args),
            ),
            registry=registry,
            progress=progress,
        )
    if args.json:
        result(report.to_json())
        return
    warn(report.warnings)
    if not args.quiet:
        say(summary(report, time.monotonic() - started))
    result(report.reference)


def summary(report: PushReport, seconds: float) -> str:
    """What was sent, and what was saved."""
    name = report.identity or report.format
    also = "".join(f", also {each.reference}" for each in report.also)
    return f"pushed {name}: layers {movements(report.layers)}, in {human_time(seconds)}{also}"


def movements(layers: Sequence[PushedLayer]) -> str:
    """How many blobs were sent, and how many did not have to be."""
    blobs = {layer.digest: layer for layer in layers}.values()

    def part(action: str) -> str:
        sizes = [layer.size for layer in blobs if layer.action == action]
        return f"{len(sizes)} {action} ({human_size(sum(sizes))})" if sizes else ""

    return ", ".join(text for text in map(part, ("uploaded", "skipped", "mounted")) if text) or "none"

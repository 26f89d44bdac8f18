# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/mirror/grafana.json.gz anew: the schemas of what docs/deploy/grafana-dashboard.json is made of.

usage: python -m tests.tools.grafana_schemas CHECKOUT      (of github.com/grafana/grafana-foundation-sdk)
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

KINDS = ("dashboard", "prometheus", "stat", "table", "timeseries")
FILE = Path(__file__).parents[1] / "fixtures" / "mirror" / "grafana.json.gz"


_ANYTHING = {"type": "object", "additionalProperties": {}}


def _bare(node: Any) -> Any:
    """Without the prose; a property may be called "description" too, and its value is a schema then.

    Two things are said here that were lost on the way from Grafana's own definitions: what they leave open has become
    an object, and alternatives that a value tells apart look as if several fitted.
    """
    if isinstance(node, list):
        return [_bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _bare(value) for key, value in node.items() if key != "description" or isinstance(value, dict)}
    if "oneOf" in found:
        found["anyOf"] = found.pop("oneOf")
    return {} if found == _ANYTHING else found


if __name__ == "__main__":
    found = {}
    for kind in KINDS:
        text = (Path(sys.argv[1]) / "jsonschema" / f"{kind}.jsonschema.json").read_text(encoding="utf-8")
        found[kind] = _bare(json.loads(text))
    packed = gzip.compress(json.dumps(found, separators=(",", ":"), sort_keys=True).encode(), mtime=0)
    FILE.write_bytes(packed)

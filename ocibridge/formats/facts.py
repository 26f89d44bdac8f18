# SPDX-License-Identifier: Apache-2.0
"""Words of the config object for what headers say in numbers (seed 001, "config" and "descriptor")."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SCALES = "KMBTQ"


def param_size(parameters: int) -> str | None:
    """`parameters` as `<count><K|M|B|T|Q>` with at most one decimal (seed 001, "paramSize").

    `8030261248` is `8B` and `136730000` is `136.7M`. None below 50, which no such word can say.
    """
    power = next((each for each in range(1, len(_SCALES)) if _tenths(parameters, each) < 10_000), len(_SCALES))
    tenths = _tenths(parameters, power)
    if tenths <= 0:
        return None
    whole, tenth = divmod(tenths, 10)
    return f"{whole}.{tenth}{_SCALES[power - 1]}" if tenth else f"{whole}{_SCALES[power - 1]}"


def _tenths(count: int, power: int) -> int:
    unit: int = 1000**power
    return (count * 10 + unit // 2) // unit


def dominant(elements: Mapping[str, int]) -> str | None:
    """The type that most elements have; the first by name of several, None of none."""
    return min(elements, key=lambda name: (-elements[name], name), default=None)


_PRECISIONS = {
    "F64": "fp64",
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "F8_E4M3": "fp8",
    "F8_E5M2": "fp8",
    "F8_E4M3FNUZ": "fp8",
    "F8_E5M2FNUZ": "fp8",
    "F4": "fp4",
    "F6_E2M3": "fp6",
    "F6_E3M2": "fp6",
    "I8": "int8",
}


def precision(elements: Mapping[str, int]) -> str | None:
    """The `precision` of weights (seed 001 names `bf16`, `fp16`, `int8` and `mixed`).

    Args:
        elements: Elements by dtype, over all files of the model.

    Returns:
        The word for the dtype of more than half of the elements, `mixed` where no dtype has that many, None where that
        dtype says nothing about the weights: unsigned and wide integers are packed quantised weights, or indices.
    """
    name = dominant(elements)
    if name is None or not elements[name]:
        return None
    return _PRECISIONS.get(name) if 2 * elements[name] > sum(elements.values()) else "mixed"


def split_file_type(file_type: str | None) -> tuple[str | None, str | None]:
    """`precision` and `quantization` for a GGUF file type: `BF16` is a precision, `Q4_K_M` a quantisation."""
    if file_type in ("F64", "F32", "F16", "BF16"):
        return _PRECISIONS[file_type], None
    return None, file_type


_SPDX_NAMES = """
    0BSD AFL-3.0 AGPL-3.0 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 APSL-2.0 Artistic-2.0 BlueOak-1.0.0
    BSD-2-Clause BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSL-1.0 BUSL-1.1 C-UDA-1.0 CC-BY-2.0 CC-BY-2.5 CC-BY-3.0
    CC-BY-4.0 CC-BY-NC-2.0 CC-BY-NC-3.0 CC-BY-NC-4.0 CC-BY-NC-ND-3.0 CC-BY-NC-ND-4.0 CC-BY-NC-SA-2.0 CC-BY-NC-SA-3.0
    CC-BY-NC-SA-4.0 CC-BY-ND-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC-PDDC CC0-1.0 CDDL-1.0 CDLA-Permissive-1.0
    CDLA-Permissive-2.0 CDLA-Sharing-1.0 CECILL-2.1 ECL-2.0 EPL-1.0 EPL-2.0 etalab-2.0 EUPL-1.1 EUPL-1.2 GFDL-1.3
    GPL-2.0 GPL-2.0-only GPL-2.0-or-later GPL-3.0 GPL-3.0-only GPL-3.0-or-later HPND Intel ISC LGPL-2.1 LGPL-2.1-only
    LGPL-2.1-or-later LGPL-3.0 LGPL-3.0-only LGPL-3.0-or-later LPPL-1.3c MIT MIT-0 MPL-2.0 MS-PL MS-RL MulanPSL-2.0
    NCSA ODbL-1.0 ODC-By-1.0 OFL-1.1 OSL-3.0 PDDL-1.0 PostgreSQL PSF-2.0 Python-2.0 UPL-1.0 Unlicense Vim W3C WTFPL
    Zlib
"""
_SPDX_IDS = {name.lower(): name for name in _SPDX_NAMES.split()}
_SPDX_REFERENCE = re.compile(r"(?:DocumentRef-[A-Za-z0-9.-]+:)?LicenseRef-[A-Za-z0-9.-]+")
_SPDX_EXCEPTION = re.compile(r"[A-Za-z0-9.-]*exception[A-Za-z0-9.-]*", re.IGNORECASE)
_SPDX_PART = re.compile(r"[()]|[^()\s]+")
_MAX_EXPRESSION = 1000


def spdx(text: str) -> str | None:
    """`text` as an SPDX licence expression in canonical spelling, or None if it is none.

    Follows SPDX 2.3, Annex D, for the licences that models come under, and `LicenseRef-` names. `apache-2.0` becomes
    `Apache-2.0`; `other`, `llama3` and `MIT License` are no licences of SPDX.
    """
    if len(text) > _MAX_EXPRESSION:
        return None
    words: list[str] = []
    depth, before = 0, "OR"
    for part in _SPDX_PART.findall(text):
        word = _spdx_word(part, before)
        depth += (part == "(") - (part == ")")
        if word is None or depth < 0:
            return None
        words.append(word)
        before = word
    if depth or not words or before in _OPERATORS or before == "(":
        return None
    return " ".join(words).replace("( ", "(").replace(" )", ")")


_OPERATORS = ("AND", "OR", "WITH")


def _spdx_word(part: str, before: str) -> str | None:
    """`part` in canonical spelling if it may follow the word `before`, else None."""
    if before == "WITH":
        return part if _SPDX_EXCEPTION.fullmatch(part) else None
    if before in ("AND", "OR", "("):
        if part == "(" or _SPDX_REFERENCE.fullmatch(part):
            return part
        name = _SPDX_IDS.get(part.removesuffix("+").lower())
        return name and name + "+" * part.endswith("+")
    if part == ")":
        return part
    operator = part.upper()
    return operator if operator in _OPERATORS and (operator != "WITH" or before != ")") else None

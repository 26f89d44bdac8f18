# SPDX-License-Identifier: Apache-2.0
"""Words of the config object for what headers say in numbers (seed 001, "config" and "descriptor")."""

from __future__ import annotations

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


_MAX_EXPRESSION = 1000


def spdx(text: str) -> str | None:
    """`text` as an SPDX licence expression in canonical spelling, or None if it is none.

    `apache-2.0` becomes `Apache-2.0`; `other`, `llama3` and `MIT License` are no licences of SPDX.
    """
    from packaging.licenses import canonicalize_license_expression  # not every model names a licence

    try:
        return canonicalize_license_expression(text) if len(text) <= _MAX_EXPRESSION else None
    except ValueError:
        return None

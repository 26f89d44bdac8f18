# SPDX-License-Identifier: Apache-2.0
"""Roles of the files of a folder: an ordered table of rules, the first match of which decides.

The default table follows the classification of modctl (`pkg/modelfile/constants.go`: configuration, weights, code,
documents, in this order). It differs where a file has a better place here: README and LICENSE are documents under any
suffix, project files (`package.json`, `pyproject.toml`) are code, tables (`*.parquet`, `*.csv`) are data sets.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...model import Role
from ...settings import SMALL_FILE
from .globs import Glob


class Rule(NamedTuple):
    """Files that match `glob`, whatever the case of their letters, have `role`."""

    glob: str
    role: Role


def _rules(role: Role, globs: str) -> Iterator[Rule]:
    return (Rule(glob, role) for glob in globs.split())


DEFAULT_RULES: tuple[Rule, ...] = (
    *_rules(Role.DOC, "README README.* LICENSE* LICENCE* NOTICE NOTICE.* COPYING COPYING.* USE_POLICY*"),
    *_rules(
        Role.CODE,
        """
        requirements*.txt constraints*.txt pyproject.toml setup.cfg tox.ini package.json package-lock.json
        pnpm-lock.yaml composer.json Cargo.toml CMakeLists.txt .git* .ocibridgeignore
        """,
    ),
    *_rules(
        Role.WEIGHT_CONFIG,
        """
        *.json *.jsonl *.json5 *.jsonc *.yaml *.yml *.toml *.ini *.config *.cfg *.conf *.properties *.props *.prop
        *.xml *.xsd *.rng *.modelcard *.meta *tokenizer.model* config.json.* *.hparams *.params *.hyperparams *.wandb
        *.mlflow *.tensorboard *.jinja *.jinja2 *.tiktoken *.vocab *.bpe *.codes *.spm *.imatrix vocab.txt merges.txt
        tokens.txt labels.txt classes.txt special_tokens*.txt spiece.model sentencepiece*.model *.spm.model params
        hparams Modelfile
        """,
    ),
    *_rules(
        Role.WEIGHT,
        """
        *.safetensors *.bin *.pt *.pth *.mar *.pte *.pt2 *.ptl *.tflite *.h5 *.hdf *.hdf5 *.pb *.data-?????-of-?????
        *.onnx.data *.onnx_data *.index *.gguf *.ggml *.ggmf *.ggjt *.q4_0 *.q4_1 *.q5_0 *.q5_1 *.q8_0 *.f16 *.f32
        *.ckpt *.checkpoint *.dist_ckpt *.tensor *.weights *.state *.embedding *.ot *.engine *.plan *.trt *.onnx *.ort
        *.msgpack *.model *.pkl *.pickle *.keras *.joblib *.npy *.npz *.nc *.mlmodel *.coreml *.mleap *.surml
        *.llamafile *.caffemodel *.prototxt *.dlc *.circle *.nb *.pdparams *.pdiparams *.pdmodel *.pmml *.ubj *.cbm
        *.lgb *.xgboost *.nemo *.task *.litertlm *.rknn
        """,
    ),
    *_rules(Role.DATASET, "*.parquet *.arrow *.feather *.csv *.tsv *.tfrecord *.tfrecords"),
    *_rules(
        Role.CODE,
        """
        *.py *.pyi *.ipynb *.whl *.sh *.bash *.zsh *.fish *.ps1 *.bat *.cmd *.patch *.c *.h *.cc *.cpp *.cxx *.c++ *.hh
        *.hpp *.hxx *.cu *.cuh *.metal *.cl *.java *.js *.mjs *.cjs *.jsx *.ts *.tsx *.go *.rs *.swift *.rb *.php
        *.scala *.kt *.kts *.r *.m *.mm *.f *.f90 *.jl *.lua *.pl *.pm *.cs *.dart *.ex *.exs *.hs *.clj *.lisp *.scm
        *.sql *.zig *.awk *.sed *.mk *.cmake *.gradle *.bazel *.bzl *.ninja *.lock Makefile* Dockerfile* *.dockerfile
        Pipfile* Gemfile* BUILD WORKSPACE go.mod go.sum *.so *.so.* *.dll *.dylib *.lib *.a *.wasm *.jar
        """,
    ),
    *_rules(
        Role.DOC,
        """
        *.md *.txt *.rst *.adoc *.tex *.bib *.pdf *.html *.htm *.log *.doc *.docx *.odt *.rtf *.xls *.xlsx *.ods *.ppt
        *.pptx *.odp *.epub *.jpg *.jpeg *.png *.gif *.bmp *.tif *.tiff *.ico *.webp *.heic *.svg *.mp4 *.mov *.avi
        *.mkv *.webm *.mpg *.mpeg *.mp3 *.wav *.flac *.ogg CHANGELOG* CITATION* AUTHORS* SECURITY*
        """,
    ),
)
"""The rules that apply when no other does, the first match deciding."""


class RoleTable:
    """Rules before the default ones.

    Args:
        rules: Rules in order, with patterns of gitignore(5); `DEFAULT_RULES` follow them.

    Raises:
        ValueError: a glob is not well formed.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = [(compiled(rule.glob), rule.role) for rule in rules]

    def role_of(self, path: str, size: int) -> tuple[Role, bool]:
        """The role of the file `path` of `size` bytes, and whether it is a guess.

        A file that no rule knows is a weight if it has `SMALL_FILE` bytes or more, else configuration of one.
        """
        path = path.lower()
        role = next((role for glob, role in self._rules if glob.covers(path)), None) or _default(path)
        return role or (Role.WEIGHT if size >= SMALL_FILE else Role.WEIGHT_CONFIG), role is None


def compiled(glob: str) -> Glob:
    """The glob of a rule, for paths in lower case.

    Raises:
        ValueError: it is not well formed; the message is a clause.
    """
    found = Glob(glob.lower())
    if not found.include:
        raise ValueError("matches no file")
    return found


_DEFAULTS = {rule.glob.lower(): number for number, rule in enumerate(DEFAULT_RULES)}
_PATTERNS = [
    (re.compile(fnmatch.translate(glob)), number)
    for glob, number in _DEFAULTS.items()
    if not re.fullmatch(r"[^*?]+|\*\.[^*?.]+", glob)
]
"""Those of the default rules that are neither a name nor a suffix, which are looked up."""


def _default(path: str) -> Role | None:
    """The role by the first default rule for the name of the file."""
    name = path.rpartition("/")[2]
    looked_up = (_DEFAULTS.get(name), _DEFAULTS.get(f"*.{name.rpartition('.')[2]}") if "." in name else None)
    found = [number for number in looked_up if number is not None]
    found += [number for pattern, number in _PATTERNS if pattern.match(name)]
    return DEFAULT_RULES[min(found)].role if found else None

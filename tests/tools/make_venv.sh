#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make_venv.sh PYTHON FOLDER: a virtual environment in FOLDER, or one sentence that says what is missing.
set -eu
python=$1 folder=$2

say() {
    echo "$*" >&2
    exit 1
}

command -v "$python" >/dev/null || say "There is no $python; install Python 3.10 or newer, or name one: make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    say "$("$python" --version) is too old; ocibridge needs 3.10 or newer: make PYTHON=/path/to/python"

"$folder/bin/python" -m pip --version >/dev/null 2>&1 && exit 0

rm -rf "$folder"
hash -r
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$folder"
elif "$python" -c 'import virtualenv' 2>/dev/null; then
    "$python" -m virtualenv --quiet "$folder"
else
    say "$python cannot make a virtual environment; install the package python3-venv (Debian, Ubuntu) or virtualenv, then run make again"
fi

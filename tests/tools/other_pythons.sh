#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of digests, encodings and formats on other versions of Python: other_pythons.sh VERSION...
set -eu
cd "$(dirname "$0")/../.."

for version in "$@"; do
    python=python$version
    if ! "$python" -c pass 2>/dev/null; then
        # pyenv has a shim for each version, which works only for the versions that are selected.
        python=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version."*/bin/python 2>/dev/null | tail -n 1)
    fi
    if [ -z "$python" ]; then
        echo "Python $version is not installed: left out."
        continue
    fi
    venv=.cache/python$version
    if [ ! -e "$venv/.ready" ]; then
        sh tests/tools/make_venv.sh "$python" "$venv"
        "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --upgrade "pip>=25.1"
        "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --editable . --group test
        touch "$venv/.ready"
    fi
    "$venv/bin/python" -m pytest --numprocesses auto --quiet tests/test_determinism.py tests/layers tests/dialects tests/formats
done

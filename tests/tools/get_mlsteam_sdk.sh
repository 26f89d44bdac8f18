#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the MLSteam SDK into .cache/mlsteam-sdk/VERSION, without its dependencies; what is there already stays.
# Only its plain Python modules are used, so the wheel of another Python or system serves as well.
set -eu
cd "$(dirname "$0")/../.."
folder=$PWD/.cache/mlsteam-sdk

for version in 0.7.0 0.8.0; do
    if [ -f "$folder/$version/mlsteam_model_sdk/core/dev/archive.py" ]; then
        continue
    fi
    echo "Fetching mlsteam-model-sdk $version ..."
    rm -rf "${folder:?}/$version"
    python3 -m pip --disable-pip-version-check --quiet install --target "$folder/$version" --no-deps --no-compile \
        --only-binary :all: --platform manylinux2014_x86_64 --implementation cp --python-version 3.12 \
        "mlsteam-model-sdk==$version"
done

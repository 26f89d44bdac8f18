#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A registry to play with at localhost:5000: compose.yaml where a container engine answers, else the program itself.
set -eu
cd "$(dirname "$0")/../.."
sh tests/tools/get_registry.sh

if timeout 20 docker compose version >/dev/null 2>&1 && docker image inspect registry:2 >/dev/null 2>&1; then
    docker compose up --detach
    echo "The registry listens at localhost:5000; 'docker compose down' stops it."
    exit 0
fi

for program in .cache/registry/usr/bin/docker-registry docker-registry registry; do
    if "$program" --version 2>/dev/null | grep -q distribution; then
        mkdir -p .cache/registry-data
        cat >.cache/registry.yml <<YAML
version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: $PWD/.cache/registry-data}
  delete: {enabled: true}
http: {addr: "127.0.0.1:5000"}
YAML
        echo "The registry listens at localhost:5000; Ctrl+C stops it."
        exec "$program" serve .cache/registry.yml
    fi
done
echo "There is no registry program and no 'docker compose'; install one of them." >&2
exit 1

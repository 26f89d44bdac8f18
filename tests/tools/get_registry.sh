#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sees to it that the tests find a real registry: registry:2 in a container engine, else the program itself.
# Needs no root: the program goes to .cache/registry/usr/bin/docker-registry.
set -eu
cd "$(dirname "$0")/../.."
place=.cache/registry
binary=$place/usr/bin/docker-registry

is_registry() {
    "$1" --version 2>/dev/null | grep -q distribution
}

for program in "$binary" docker-registry registry; do
    if is_registry "$program"; then
        exit 0
    fi
done

if command -v docker >/dev/null && timeout 20 docker info >/dev/null 2>&1; then
    if docker image inspect registry:2 >/dev/null 2>&1 || timeout 300 docker pull --quiet registry:2 >/dev/null 2>&1; then
        exit 0
    fi
fi

mkdir -p "$place"

if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    known() {
        apt-cache show docker-registry >/dev/null 2>&1
    }
    if ! known && [ "$(id -u)" = 0 ]; then
        echo "Updating the package lists for docker-registry ..."
        apt-get update --quiet --quiet || true
    fi
    if known; then
        echo "Fetching the package docker-registry into $place ..."
        (cd "$place" && rm -f ./*.deb && apt-get download --quiet --quiet docker-registry && dpkg-deb -x ./*.deb .) || true
        rm -f "$place"/*.deb
    fi
    if is_registry "$binary"; then
        exit 0
    fi
fi

if command -v go >/dev/null; then
    echo "Building the registry into $place with Go ..."
    mkdir -p "$place/usr/bin"
    if GOBIN=$PWD/$place/usr/bin go install github.com/distribution/distribution/v3/cmd/registry@v3.0.0; then
        mv "$place/usr/bin/registry" "$binary"
    fi
    if is_registry "$binary"; then
        exit 0
    fi
fi

echo "The tests need a registry, and none could be had; install the package docker-registry, or start Docker with the image" \
    "registry:2 (on Debian and Ubuntu without root: ask for 'apt-get update' once, then run make again)." >&2
exit 1

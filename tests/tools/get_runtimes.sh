#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make runtimes` needs beside the system's packages, into .cache/runtimes: containerd 2.x and the client that asks
# runtimes as a kubelet would (both from tests/runtimes/crivol/go.mod), CRI-O, a base with Python for the container
# image, and the wheels that go into it. Says what is missing.
# usage: get_runtimes.sh PYTHON      (one whose pip is 25.1 or newer)
set -eu
python=$1
cd "$(dirname "$0")/../.."
place=$PWD/.cache/runtimes
sources=tests/runtimes/crivol
containerd=github.com/containerd/containerd/v2/cmd
crio=v1.36.3

say() {
    echo "$*" >&2
    exit 1
}

[ "$(uname -s)" = Linux ] || say "make runtimes mounts images, which needs Linux."
[ "$(id -u)" = 0 ] || say "make runtimes mounts images, which needs root: run it with sudo, or in a virtual machine."
missing=
for program in containerd ctr runc podman conmon buildah mmdebstrap skopeo cc; do
    command -v $program >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || say "make runtimes needs$missing: on Debian, apt-get install containerd runc podman conmon buildah mmdebstrap skopeo gcc libc6-dev"
command -v go >/dev/null || say "make runtimes needs Go, to build CRI-O and containerd 2 (Debian has 1.6, which knows no image volumes)."

mkdir -p "$place/bin"
base=
trap 'test -z "$base" || kill "$base"' EXIT
if [ ! -e "$place/base.tar" ]; then
    echo "Making a base with Python for the container image ..."
    SOURCE_DATE_EPOCH=0 mmdebstrap --variant=apt --include=ca-certificates,python3-pip,python3-venv \
        --aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
        bookworm "$place/base.new.tar" >"$place/base.log" 2>&1 &
    base=$!
fi

stamp=$(cat tests/tools/get_runtimes.sh $sources/go.* $sources/*.go $sources/*/*.go | sha256sum)
if [ "$stamp" != "$(cat "$place/bin/.stamp" 2>/dev/null)" ]; then
    echo "Building containerd and the clients of the tests ..."
    # Without what no test asks for, and without what a debugger needs: it takes a good part of the time.
    tags=no_tracing,no_devmapper,no_zfs,no_rdt,no_systemd,nri_no_wasm
    (cd $sources && CGO_ENABLED=0 go build -trimpath -tags $tags -gcflags=all=-dwarf=false -ldflags=-w \
        -o "$place/bin/" . ./look $containerd/containerd $containerd/containerd-shim-runc-v2) ||
        say "containerd could not be built."
    echo "$stamp" >"$place/bin/.stamp"
fi

if [ "$crio" != "$(cat "$place/bin/.crio" 2>/dev/null)" ]; then
    echo "Building CRI-O $crio ..."
    # It replaces modules of others, so it is built as the main module, from its sources in Go's cache.
    found=$(go mod download -json "github.com/cri-o/cri-o@$crio" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    tags=containers_image_openpgp,exclude_graphdriver_btrfs
    { CGO_ENABLED=0 go build -C "$found" -trimpath -tags $tags -gcflags=all=-dwarf=false -ldflags=-w \
        -o "$place/bin/" ./cmd/crio && cc -static -std=c99 -Os -s -o "$place/bin/pinns" "$found"/pinns/src/*.c; } ||
        say "CRI-O could not be built."
    echo "$crio" >"$place/bin/.crio"
fi

if [ -n "$base" ]; then
    wait $base || { tail -n 5 "$place/base.log" >&2; say "The base could not be made (see .cache/runtimes/base.log)."; }
    base=
    mv "$place/base.new.tar" "$place/base.tar"
fi

stamp=$(cat pyproject.toml "$place/base.log" | sha256sum)
if [ "$stamp" != "$(cat "$place/wheels/.stamp" 2>/dev/null)" ]; then
    version=$(tar -tf "$place/base.tar" | sed -n 's|^\./usr/bin/python\(3\.[0-9]*\)$|\1|p')
    echo "Fetching the wheels of the container image for Python $version ..."
    rm -rf "$place/wheels"
    "$python" -m pip --disable-pip-version-check --quiet download --no-deps --only-binary :all: \
        --python-version "$version" --dest "$place/wheels" --group image --group image-dask --group image-build
    echo "$stamp" >"$place/wheels/.stamp"
fi

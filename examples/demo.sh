#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A carton goes into an OCI image layout and comes back; its identity stays.
set -eu
carton=$(dirname "$0")/digits.carton
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() {
    printf '\n$ %s\n' "$*"
    "$@"
}

identity() {
    ocibridge inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["identity"])'
}

step ocibridge push "$carton" "oci:$work/layout:v1"
step ocibridge inspect "oci:$work/layout:v1"
step ocibridge pull "oci:$work/layout:v1" "$work/digits.carton"

before=$(identity "$carton")
stored=$(identity "oci:$work/layout:v1")
after=$(identity "$work/digits.carton")
printf '\nbefore   %s\nstored   %s\nafter    %s\n' "$before" "$stored" "$after"

if [ "$before" != "$after" ] || [ "$before" != "$stored" ]; then
    echo "The identities differ." >&2
    exit 1
fi
echo "The model that came back is the one that went out."

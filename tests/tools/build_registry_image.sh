#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the image registry:2 from an installed registry binary, for machines that have a container engine and no
# way to a public registry. It behaves like the public one: port 5000, /var/lib/registry, REGISTRY_* overrides.
# usage: build_registry_image.sh [IMAGE]      env: OCIBRIDGE_REGISTRY_BINARY, CONTAINER_ENGINE (default: docker)
set -eu
image=${1:-registry:2}
engine=${CONTAINER_ENGINE:-docker}
binary=${OCIBRIDGE_REGISTRY_BINARY:-$(command -v docker-registry || command -v registry || true)}
if [ -z "$binary" ]; then
  echo "no registry binary: install the package docker-registry, or set OCIBRIDGE_REGISTRY_BINARY" >&2
  exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/etc/docker/registry" "$root/var/lib/registry" "$root/tmp"
cp -L "$binary" "$root/bin/registry"
# A static binary has no libraries, which ldd reports as a failure.
{ ldd "$binary" 2>/dev/null || true; } | grep -o '/[^ ]*' | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
cat >"$root/etc/docker/registry/config.yml" <<'YAML'
version: 0.1
storage:
  delete: {enabled: true}
  filesystem: {rootdirectory: /var/lib/registry}
http:
  addr: :5000
YAML
tar -C "$root" --owner=0 --group=0 --numeric-owner -cf - . | "$engine" import \
  -c 'ENTRYPOINT ["/bin/registry", "serve", "/etc/docker/registry/config.yml"]' \
  -c 'EXPOSE 5000' -c 'VOLUME /var/lib/registry' - "$image"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Go tools that artifacts are exchanged with into .cache/gobin; what is there already stays.
# usage: get_peers.sh [NAME...]      (none: all of them)
set -eu
wanted=$*
cd "$(dirname "$0")/../.."
bin=$PWD/.cache/gobin

if ! command -v go >/dev/null; then
    echo "Go is not installed: the peers oras and crane are not built (their tests need them on PATH)." >&2
    exit 0
fi
mkdir -p "$bin"

# peer NAME VERSION PACKAGE
peer() {
    case " ${wanted:-$1} " in *" $1 "*) ;; *) return ;; esac
    if [ -x "$bin/$1" ] && [ "$(cat "$bin/.$1.version" 2>/dev/null)" = "$2" ]; then
        return
    fi
    echo "Building $1 $2 ..."
    module=$(mktemp -d)
    # In a module of its own: 'go install PACKAGE@VERSION' asks for a list of versions that not every proxy has.
    if (cd "$module" && go mod init peer && go get "$3@$2" && go build -o "$bin/$1" "$3") >"$bin/$1.log" 2>&1; then
        echo "$2" >"$bin/.$1.version"
        rm -f "$bin/$1.log"
    else
        echo "$1 could not be built (see .cache/gobin/$1.log):" >&2
        tail -n 2 "$bin/$1.log" >&2
    fi
    rm -rf "$module"
}

peer oras v1.2.3 oras.land/oras/cmd/oras
peer crane v0.20.2 github.com/google/go-containerregistry/cmd/crane
peer registry3 v3.0.0 github.com/distribution/distribution/v3/cmd/registry

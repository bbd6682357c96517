#!/usr/bin/env bash
# Runs the built image as its ordinary user on a read-only root file system
# without capabilities: it starts, is healthy, answers calls, drains and exits 0.
# Its bill of materials is complete, and it adds at most 120 MB to its base.
# Exit 77 (skipped) where no engine has the image.
#
# usage: smoke_test.sh PACKAGES_TXT [IMAGE [BASE]]
#   (default attnd:dev, docker.io/library/debian:bookworm-slim)
set -euo pipefail
packages=$1 image=${2:-${ATTND_IMAGE:-attnd:dev}}
base=${3:-docker.io/library/debian:bookworm-slim}
most_bytes=$((120 * 1000 * 1000))
work=$(mktemp -d)

fail() { echo "failed: $*" >&2; cat "$work"/log >&2 || true; exit 1; }
waits() { # what command...
  local what=$1 try
  shift
  for try in $(seq 300); do
    if "$@"; then return; fi
    sleep 0.1
  done
  fail "$what"
}

# ---- docker, podman: containers ------------------------------------------------

with_engine() { # docker|podman
  local engine=$1 id code
  id=$($engine run --detach --read-only --cap-drop ALL \
    --security-opt no-new-privileges "$image")
  trap "$engine rm --force $id >/dev/null; rm -rf $work" EXIT
  run() { $engine exec "$id" "$@"; }
  log() { $engine logs "$id" >"$work/log" 2>&1; grep -q "$1" "$work/log"; }
  waits "it does not listen" log '"event":"listening"'
  use
  $engine stop --time 60 "$id" >/dev/null
  code=$($engine inspect --format '{{.State.ExitCode}}' "$id")
  [ "$code" = 0 ] || fail "exit code $code after SIGTERM"
  $engine cp "$id:/usr/share/attnd/sbom.spdx.json" "$work/sbom"
  size=$($engine image inspect --format '{{.Size}}' "$image")
  base_size=$($engine image inspect --format '{{.Size}}' "$base")
}

# ---- buildah: the image's files, without a container engine ---------------------

# In namespaces of its own, with the root mounted read-only: as far as files,
# network and privileges go, what a container is.
with_buildah() {
  local driver container pid
  for driver in "${STORAGE_DRIVER:-}" vfs; do
    export STORAGE_DRIVER=$driver
    container=$(buildah from --pull-never "$image" 2>/dev/null) && break
  done
  [ -n "$container" ] || return 77
  trap "buildah rm $container >/dev/null; rm -rf $work" EXIT
  root=$(buildah mount "$container")
  # As the image's user, without any privilege, in the namespaces it is called in.
  as_user() {
    setpriv --no-new-privs --inh-caps=-all \
      chroot --userspec=65532:65532 --groups= "$root" "$@"
  }
  export root
  export -f as_user
  serve() {
    exec unshare --mount --net bash -c '
      ip link set lo up &&
      mount --rbind "$root" "$root" && mount -o remount,bind,ro "$root" &&
      mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev" &&
      mknod -m 666 "$root/dev/urandom" c 1 9 && mknod -m 666 "$root/dev/null" c 1 3 &&
      exec setpriv --no-new-privs --inh-caps=-all \
        chroot --userspec=65532:65532 --groups= "$root" "$@"' _ "$@"
  }
  run() {
    nsenter --target "$pid" --mount --net bash -c 'as_user "$@"' _ "$@"
  }
  serve attnd --config /etc/attnd/attnd.yaml >"$work/log" 2>&1 &
  pid=$!
  trap "kill $pid 2>/dev/null || true; buildah rm $container >/dev/null; rm -rf $work" EXIT
  log() { grep -q "$1" "$work/log"; }
  waits "it does not listen" log '"event":"listening"'
  [ "$(stat -c %u "/proc/$pid")" = 65532 ] || fail "it runs as another user"
  grep -q 'CapEff:.*0000000000000000' "/proc/$pid/status" || fail "it has capabilities"
  use
  kill -TERM "$pid"
  wait "$pid" || fail "exit code $? after SIGTERM"
  cp "$root/usr/share/attnd/sbom.spdx.json" "$work/sbom" ||
    fail "no bill of materials"
  size=$(du -sb --one-file-system "$root" | cut -f1)
  local base_container
  base_container=$(buildah from --pull-never "$base")
  base_size=$(du -sb --one-file-system "$(buildah mount "$base_container")" | cut -f1)
  buildah rm "$base_container" >/dev/null
}

# ---- what holds in all of them ---------------------------------------------------

use() {
  waits "it is not healthy" run attnctl health
  [ "$(run attnctl encodings | wc -l)" -gt 3 ] || fail "no encodings"
  run attnctl load --requests 20 --queries 64 >"$work/load" || fail "calls"
  if run bash -c 'echo x >/tmp/x' 2>/dev/null; then
    fail "the root can be written to"
  fi
}

status=77
for engine in docker podman; do
  if command -v $engine >/dev/null && timeout 20 $engine image inspect "$image" \
    >/dev/null 2>&1; then
    with_engine $engine
    status=0
    break
  fi
done
if [ $status -eq 77 ] && command -v buildah >/dev/null && [ "$(id -u)" -eq 0 ]; then
  status=0
  with_buildah || status=$?
fi
if [ $status -eq 77 ]; then
  echo "skipped: no container engine here has the image $image"
  rm -rf "$work"
  exit 77
fi
[ $status -eq 0 ] || exit $status

names=$(/usr/bin/python3 -c 'import json, sys
print("\n".join(p["name"] for p in json.load(open(sys.argv[1]))["packages"]))' "$work/sbom")
for name in attnd libc6 $(awk '/^\[/ { inside = ($1 == "[runtime]") } !/^\[/ && inside && NF { print $1 }' "$packages"); do
  grep -qx "$name" <<<"$names" || fail "the bill of materials lacks $name"
done
[ $((size - base_size)) -le $most_bytes ] || fail "$((size - base_size)) bytes over the base"
echo "$image: good; $(((size - base_size) / 1000000)) MB over its base," \
  "$(wc -l <<<"$names") packages in its bill of materials"

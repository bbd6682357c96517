#!/usr/bin/env bash
# Reads the configuration of the built image: health check, user, ports,
# entry point, labels.  Exit 77 (skipped) where no engine has the image; `make
# image` builds it.
#
# usage: image_test.sh VERSION [IMAGE]     (default attnd:dev)
set -euo pipefail
version=$1 image=${2:-${ATTND_IMAGE:-attnd:dev}}

# Prints the image's configuration as JSON in Docker's form.
configuration() {
  if command -v docker >/dev/null &&
    timeout 20 docker image inspect --format '{{json .Config}}' "$image" \
      2>/dev/null; then
    return
  fi
  local engine format driver inspected
  for engine in podman buildah; do
    command -v $engine >/dev/null || continue
    # buildah's templates know no json: take all it says.
    case $engine in
      podman) format=(--format '{{json .}}') ;;
      buildah) format=() ;;
    esac
    # Where overlay file systems do not work, images live under vfs.
    for driver in "${STORAGE_DRIVER:-}" vfs; do
      if inspected=$(STORAGE_DRIVER=$driver timeout 20 $engine inspect \
        --type image "${format[@]}" "$image" 2>/dev/null); then
        tr -d '[:space:]' <<<"$inspected"
        return
      fi
    done
  done
  return 1
}

if ! config=$(configuration); then
  echo "skipped: no container engine here has the image $image"
  exit 77
fi

failed=0
expect() { # what text
  if ! grep -qF -- "$2" <<<"$config"; then
    echo "$1: expected $2"
    failed=1
  fi
}
expect "health check" '"Test":["CMD","attnctl","health"]'
expect "user" '"User":"65532:65532"'
expect "gRPC port" '"50051/tcp":{}'
expect "metrics port" '"9464/tcp":{}'
expect "entry point" '"Entrypoint":["attnd"]'
expect "command" '"Cmd":["--config","/etc/attnd/attnd.yaml"]'
expect "stop signal" '"StopSignal":"SIGTERM"'
expect "licence label" '"org.opencontainers.image.licenses":"Apache-2.0"'
expect "version label" "\"org.opencontainers.image.version\":\"$version\""
for label in title description revision source created base.name base.digest; do
  expect "label" "\"org.opencontainers.image.$label\":\""
done
if [ $failed -ne 0 ]; then
  echo "$image is $config"
  exit 1
fi
echo "$image: configuration as documented"

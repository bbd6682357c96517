#!/usr/bin/env bash
# Renders the chart into the plain manifests of deploy/kubernetes/, for people
# without Helm.  `make deploy-check` tells when they are old.
#
#   deploy/render.sh [FOLDER]      (default deploy/kubernetes)
#
# HELM names the program (default helm).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$root/deploy/kubernetes}
mkdir -p "$folder"

render() { # file values heading
  {
    echo "# Rendered by deploy/render.sh from deploy/charts/attnd; change that."
    echo "# $3"
    "${HELM:-helm}" template attnd "$root/deploy/charts/attnd" \
      --namespace attnd --kube-version 1.30.0 --skip-tests \
      --values "$root/tests/deploy/values/$2.yaml" |
      sed -e '/^# Source: /d' -e '/helm.sh\/chart:/d' \
        -e '/app.kubernetes.io\/managed-by: Helm/d' -e 's/ *$//'
  } >"$folder/$1.yaml"
}

render attnd defaults \
  "Two replicas, no autoscaling; needs nothing but Kubernetes 1.30."
render attnd-scaled scaled \
  "Watched and scaled; needs the Prometheus Operator and KEDA 2.17 as well."

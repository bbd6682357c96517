#!/usr/bin/env bash
# The chart, checked with tools that Debian does not have: Helm (a Go module) and
# kubernetes-validate (from PyPI, which carries the schemas of Kubernetes).
# Both go into TOOLS; a helm in PATH is taken as it is.
#
# usage: deploy_check.sh TOOLS_FOLDER [ATTND_BINARY]
set -euo pipefail
helm_version=v3.16.4
validate_version=1.37.0

tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$tests/../.." && pwd)
chart=$root/deploy/charts/attnd
mkdir -p "$1"
tools=$(cd "$1" && pwd) attnd=${2-}

step() { echo "== $*"; }

step "tools"
if command -v helm >/dev/null; then
  helm=helm
else
  helm=$tools/helm
  [ -x "$helm" ] || GOBIN=$tools go install "helm.sh/helm/v3/cmd/helm@$helm_version"
fi
if ! "$tools/python/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then
  python3 -m venv "$tools/python"
  "$tools/python/bin/pip" install --quiet "kubernetes-validate==$validate_version"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for values in "$tests"/values/*.yaml; do
  name=$(basename "$values" .yaml)
  step "$name: lint, render"
  "$helm" lint --strict --quiet "$chart" --kube-version 1.30.0 --values "$values"
  "$helm" template release "$chart" --namespace place --kube-version 1.30.0 \
    --values "$values" >"$work/$name.yaml"
  "$helm" template release "$chart" --namespace place --kube-version 1.30.0 \
    --values "$values" --show-only templates/configmap.yaml >"$work/$name.config"
done

step "objects"
"$tools/python/bin/python" "$tests/check_objects.py" "$work"/*.yaml

step "what must be refused"
while read -r wrong; do
  # shellcheck disable=SC2086
  if "$helm" template release "$chart" --kube-version 1.30.0 $wrong \
    >/dev/null 2>"$work/why"; then
    echo "accepted: $wrong"
    exit 1
  fi
  echo "$wrong: refused"
done <<'WRONG'
--set replica=3
--set cpus=1.5
--set autoscaling.kind=keda
--set autoscaling.minReplicas=20
--set latencyObjectiveSeconds=0.7
--set config.drain.delay_seconds=1
WRONG

step "rendered rules"
python='import sys, yaml
for o in yaml.safe_load_all(open(sys.argv[1])):
    if o["kind"] == "PrometheusRule":
        print(yaml.safe_dump(o["spec"]))'
for name in scaled everything; do
  "$tools/python/bin/python" -c "$python" "$work/$name.yaml" >"$work/rules.yaml"
  promtool check rules "$work/rules.yaml"
done

if [ -n "$attnd" ]; then
  step "rendered configurations"
  python='import sys, yaml
print(yaml.safe_load(open(sys.argv[1]))["data"]["attnd.yaml"])'
  for config in "$work"/*.config; do
    name=$(basename "$config" .config)
    "$tools/python/bin/python" -c "$python" "$config" >"$work/attnd.yaml"
    "$attnd" --check-config "$work/attnd.yaml" >/dev/null
    echo "$name: attnd accepts it"
  done
else
  echo "not checked: the rendered configurations, for lack of an attnd"
fi

step "deploy/kubernetes"
HELM=$helm "$root/deploy/render.sh" "$work/kubernetes"
diff -r "$root/deploy/kubernetes" "$work/kubernetes" ||
  { echo "old: run deploy/render.sh"; exit 1; }
echo "deploy-check: all good"

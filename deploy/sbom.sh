#!/bin/sh
# Write the software bill of materials of both images, CycloneDX JSON, to sbom/. Build them first.
#
#   deploy/sbom.sh [CURATOR_IMAGE ANALYST_IMAGE]     weir-curator and weir-analyst by default
#
# BUILD is the command that builds, "docker build" by default; for buildah:
#   BUILD="buildah bud --format docker --pull-never" deploy/sbom.sh
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-docker build}
mkdir -p sbom

list() {
    # shellcheck disable=SC2086 - BUILD is several words
    $build -f deploy/Dockerfile.sbom --build-arg "IMAGE=$2" --target sbom \
        --output "type=local,dest=sbom" .
    mv sbom/sbom.cdx.json "sbom/$1.cdx.json"
    test -s "sbom/$1.cdx.json"
}

list curator "${1:-weir-curator}"
list analyst "${2:-weir-analyst}"
ls -l sbom

#!/usr/bin/env bash
# Build the CPU images and run them for real on a machine without Docker: as root, on Debian, with
#   apt-get install debootstrap buildah podman netavark aardvark-dns runc iptables
#   pip install podman-compose
#
# The base image and stand-ins for PostgreSQL and HAProxy are bootstrapped from Debian, so nothing
# is taken from a registry of images. It runs check_images.sh and check_replicas.sh, and takes some
# minutes the first time. WORK keeps what can be used again.
#   BUILD_OPTIONS   more options for buildah, such as mounts for pip's configuration and wheels
#   CA_BUNDLE       the authorities that pip trusts (default: those of this machine)
#   CHECKS          which of the two checks to run
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=${WORK:-/var/tmp/weir-try}
CA_BUNDLE=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
read -r -a BUILD_OPTIONS <<<"${BUILD_OPTIONS:-}"
BASE=docker.io/library/python:3.11-slim
DATABASE=localhost/weir-try-postgres:latest
GATE=localhost/weir-try-haproxy:latest
mkdir -p "$WORK"

say() { printf '\n==== %s\n' "$*"; }

has_image() { buildah inspect --type image "$1" >/dev/null 2>&1; }

# from_folder NAME FOLDER: make an image of a root folder; further arguments are its settings.
from_folder() {
    local name=$1 folder=$2 container
    shift 2
    container=$(buildah from scratch)
    cp --archive "$folder/." "$(buildah mount "$container")" # `buildah add` would change the owners
    buildah unmount "$container" >/dev/null
    [ $# -eq 0 ] || buildah config "$@" "$container"
    buildah commit --quiet --rm "$container" "$name" >/dev/null
}

bootstrap() {
    local folder=$1 packages=$2
    [ -e "$folder/.bootstrapped" ] && return
    debootstrap --variant=minbase --include="$packages" bookworm "$folder" >"$folder.log"
    touch "$folder/.bootstrapped"
}

base_image() {
    bootstrap "$WORK/base" python3,python3-venv,ca-certificates
    ln -sf python3 "$WORK/base/usr/bin/python"
    cp "$CA_BUNDLE" "$WORK/base/etc/ssl/certs/ca-certificates.crt"
    from_folder "$BASE" "$WORK/base" --env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
}

# The two programs with which the official images start, as far as the compose file relies on them.
stand_ins() {
    bootstrap "$WORK/servers" python3,ca-certificates,postgresql,haproxy
    install --mode=0755 deploy/try/postgres.sh "$WORK/servers/usr/local/bin/postgres.sh"
    chroot "$WORK/servers" usermod --uid 999 postgres
    chroot "$WORK/servers" install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
    chroot "$WORK/servers" install -d -o postgres -g postgres -m 3777 /run/postgresql
    from_folder "$DATABASE" "$WORK/servers" --user postgres \
        --env PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin \
        --env PGDATA=/var/lib/postgresql/data \
        --entrypoint '["/usr/local/bin/postgres.sh"]'
    from_folder "$GATE" "$WORK/servers" --user haproxy --env PATH=/usr/sbin:/usr/bin:/bin \
        --entrypoint '["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'
}

build() {
    local target=$1
    # chroot isolation needs no namespace; without docker's format the health check is dropped.
    buildah bud --format docker --isolation chroot --pull-never --layers --quiet \
        ${BUILD_OPTIONS[@]+"${BUILD_OPTIONS[@]}"} \
        --build-arg TORCH_INDEX_URL="${TORCH_INDEX_URL:-}" \
        --target "$target" --tag "weir-$target" --file deploy/Dockerfile . >/dev/null
}

say "base images"
has_image "$BASE" || base_image
{ has_image "$DATABASE" && has_image "$GATE"; } || stand_ins
say "build the images"
for target in curator analyst; do
    time build "$target"
    buildah images "weir-$target"
done

cat >"$WORK/containers.conf" <<CONF
[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
CONF
export CONTAINERS_CONF=$WORK/containers.conf ENGINE=podman COMPOSE=podman-compose BUILD=no
export WEIR_POSTGRES_IMAGE=$DATABASE WEIR_GATE_IMAGE=$GATE
for check in ${CHECKS:-check_images check_replicas}; do
    say "$check"
    "deploy/$check.sh"
done

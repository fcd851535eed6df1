#!/usr/bin/env bash
# Build both images, run them as docker-compose.yml says, and check what a deployment relies on.
#
# It uses a compose project, volumes and ports of its own, and removes them at the end.
#   deploy/check_images.sh                                          with Docker
#   ENGINE=podman COMPOSE=podman-compose deploy/check_images.sh     with Podman
#   BUILD=no deploy/check_images.sh                                 with images that are built
set -euo pipefail
cd "$(dirname "$0")/.."

ENGINE=${ENGINE:-docker}
read -r -a COMPOSE <<<"${COMPOSE:-docker compose}"
PROJECT=weir-check
export WEIR_GRPC_PORT=${WEIR_GRPC_PORT:-55051} WEIR_REST_PORT=${WEIR_REST_PORT:-58080}
ALICE=/credentials/alice.credentials.json

say() { printf '\n== %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}
compose() { "${COMPOSE[@]}" --project-name "$PROJECT" --profile analyst "$@"; }
steward() { compose run --rm -T --no-deps curator "$@"; }
analyst() { compose run --rm -T --no-deps analyst "$@"; }
clean_up() { compose down --volumes >/dev/null 2>&1 || true; }
container() {
    "$ENGINE" ps --all --quiet \
        --filter "label=com.docker.compose.project=$PROJECT" \
        --filter label=com.docker.compose.service=curator | head -n 1
}
inspect() { "$ENGINE" inspect --format "$1" "$(container)"; }
wait_until_healthy() {
    for _ in $(seq 60); do
        if "$ENGINE" exec "$(container)" python /opt/weir/healthcheck.py; then return; fi
        sleep 1
    done
    "$ENGINE" logs "$(container)" >&2
    fail "the curator is not ready"
}
start() {
    compose up --detach curator
    wait_until_healthy
}
stop() {
    "$ENGINE" stop --time 30 "$(container)" >/dev/null
    local code
    code=$(inspect '{{.State.ExitCode}}')
    [ "$code" = 0 ] || fail "SIGTERM ended the curator with exit code $code"
}

trap clean_up EXIT
clean_up

if [ "${BUILD:-yes}" = yes ]; then
    say "build"
    compose build
fi

say "the images"
for image in weir-curator weir-analyst; do
    user=$("$ENGINE" image inspect --format '{{.Config.User}}' "$image")
    [ "$user" = 10001:10001 ] || fail "$image runs as '$user'"
done
analyst recipes | grep -q embedding-digits || fail "the analyst's image has no recipes"

say "first start"
start
[ "$(inspect '{{.HostConfig.ReadonlyRootfs}}')" = true ] || fail "the root is writable"
if "$ENGINE" exec "$(container)" sh -c 'echo x > /opt/weir/x' 2>/dev/null; then
    fail "a file was written outside the volumes"
fi
"$ENGINE" exec "$(container)" cat /proc/1/status | grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):'
"$ENGINE" exec "$(container)" cat /proc/1/status |
    grep -Eq '^CapEff:[[:space:]]*0+$' || fail "the curator has capabilities"
steward analyst add alice --out "$ALICE"
say "add the data set while the curator serves, train"
steward dataset add digits sklearn:digits-private --epsilon 10 --delta 1e-4 \
    --adjacency add-or-remove-one-record --classes "0,1,2,3,4,5,6,7,8,9" --image-shape 1x8x8 \
    --max-level 16 --nominal-size 1437 --max-size 1500 --sampling-rate 40/1437 --capacity 96
analyst train --recipe embedding-digits --steps 50 --out digits \
    --curator curator:50051 --credentials "$ALICE"
analyst sample --out-of digits --count 20 --out digits.npz
budget=$(steward budget --json)
printf '%s\n' "$budget"
printf '%s' "$budget" | "$ENGINE" exec --interactive "$(container)" python -c \
    'import json, sys; sys.exit(not 0 < json.load(sys.stdin)[0]["epsilon"]["spent"] < 10)' ||
    fail "the charge is not between nothing and the budget"

say "the volumes survive the containers"
stop
compose down >/dev/null
start
[ "$(steward budget --json)" = "$budget" ] || fail "the budget is not what it was"
analyst sample --out-of digits --count 5 --out again.npz

say "REST on this machine's port, with the curator's own certificate"
if command -v curl >/dev/null; then
    authority=$(mktemp)
    "$ENGINE" exec "$(container)" cat /data/identity/ca.pem >"$authority"
    curl --silent --show-error --fail --noproxy '*' --cacert "$authority" \
        --write-out "\n" "https://localhost:$WEIR_REST_PORT/healthz"
    rm "$authority"
fi
stop
say "all good"

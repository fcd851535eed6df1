#!/usr/bin/env bash
# Run two curators over one PostgreSQL ledger as docker-compose.postgres.yml says, with images that
# are built, and check what a deployment relies on: who reaches whom, and that one may die.
#
# It uses a compose project, volumes, ports and a password of its own, and removes them at the end.
#   deploy/check_replicas.sh                                          with Docker
#   ENGINE=podman COMPOSE=podman-compose deploy/check_replicas.sh     with Podman
set -euo pipefail
cd "$(dirname "$0")/.."

ENGINE=${ENGINE:-docker}
read -r -a COMPOSE <<<"${COMPOSE:-docker compose}"
PROJECT=weir-check-replicas
WEIR_SECRETS=$(mktemp -d)
export WEIR_SECRETS
export WEIR_GRPC_PORT=${WEIR_GRPC_PORT:-55052} WEIR_REST_PORT=${WEIR_REST_PORT:-58081}
ALICE=/credentials/alice.credentials.json

say() { printf '\n== %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}
compose() {
    "${COMPOSE[@]}" --project-name "$PROJECT" -f docker-compose.yml -f docker-compose.postgres.yml \
        --profile analyst "$@"
}
steward() { compose run --rm -T --no-deps curator "$@"; }
analyst() { compose run --rm -T --no-deps analyst "$@"; }
clean_up() {
    compose down --volumes >/dev/null 2>&1 || true
    rm -rf "$WEIR_SECRETS"
}
container() {
    "$ENGINE" ps --all --quiet \
        --filter "label=com.docker.compose.project=$PROJECT" \
        --filter "label=com.docker.compose.service=$1" | head -n 1
}
start() { # SERVICE COMMAND...: start it alone and wait until the command succeeds inside
    local service=$1
    shift
    compose up --detach --no-deps "$service"
    for _ in $(seq 90); do
        if "$ENGINE" exec "$(container "$service")" "$@" >/dev/null 2>&1; then return; fi
        sleep 1
    done
    "$ENGINE" logs "$(container "$service")" >&2
    fail "$service is not ready"
}
ready=(python /opt/weir/healthcheck.py)
# Whether a program in a service's network reaches ADDRESS PORT.
reaches() {
    local service=$1
    shift
    compose run --rm -T --no-deps --entrypoint python "$service" -c '
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error}")' "$@"
}
address() {
    "$ENGINE" inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}' \
        "$(container "$1")"
}
train() {
    analyst train --recipe embedding-digits --steps 20 --out "$1" \
        --curator curator:50051 --credentials "$ALICE"
}

trap clean_up EXIT
compose down --volumes >/dev/null 2>&1 || true
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$WEIR_SECRETS/ledger-password"
chmod 0711 "$WEIR_SECRETS"
chmod 0644 "$WEIR_SECRETS/ledger-password"

say "start: database, first curator, second curator, gate"
start postgres pg_isready --username=weir --dbname=weir --host=127.0.0.1
start curator "${ready[@]}"
start curator-2 "${ready[@]}"
compose up --detach --no-deps gate
steward analyst add alice --out "$ALICE"
steward dataset add digits sklearn:digits-private --epsilon 10 --delta 1e-4 \
    --adjacency add-or-remove-one-record --classes "0,1,2,3,4,5,6,7,8,9" --image-shape 1x8x8 \
    --max-level 16 --nominal-size 1437 --max-size 1500 --sampling-rate 40/1437 --capacity 96

say "who reaches whom"
database=$(address postgres)
reaches curator postgres 5432 || fail "a curator does not reach the database by its name"
for ip in $database; do
    reaches curator "$ip" 5432 || fail "a curator does not reach the database"
    if reaches analyst "$ip" 5432; then fail "the analyst reaches the database"; fi
done
if reaches analyst postgres 5432; then fail "the analyst knows the database's name"; fi
for ip in $(address curator) $(address curator-2); do
    if reaches analyst "$ip" 50051; then fail "the analyst reaches a curator past the gate"; fi
done
reaches analyst curator 50051 || fail "the analyst does not reach the gate"
if "$ENGINE" exec "$(container curator)" sh -c 'env | grep -q PASSWORD=' 2>/dev/null; then
    fail "the password is in the container's settings"
fi

say "train through the gate, with two curators"
train first
before=$(steward budget --json)
printf '%s\n' "$before"

say "one curator is killed; the other goes on with the same ledger"
"$ENGINE" kill "$(container curator)" >/dev/null
sleep 10 # the gate asks every two seconds
train second
"$ENGINE" exec "$(container curator-2)" sh /opt/weir/entrypoint.sh budget

say "both again, with what was spent"
start curator "${ready[@]}"
steward budget --json | "$ENGINE" exec --interactive "$(container curator)" python -c \
    'import json, sys; spent = [json.loads(text)[0]["epsilon"]["spent"] for text in (sys.argv[1], sys.stdin.read())]; print(spent); sys.exit(not 0 < spent[0] < spent[1] < 10)' "$before" ||
    fail "the second training was not charged to the same ledger"
say "all good"

#!/bin/sh
# What the curator's image runs. The words after the image's name are those of the `curator`
# command, less `--dir`: the folder is $CURATOR_DIR, made at the first start. `serve` is the default.
#
# The password of a ledger in PostgreSQL may lie in the file $WEIR_LEDGER_PASSWORD_FILE, so that it
# is in no URL: WEIR_LEDGER_URL=postgresql://weir@db/weir.
set -eu
umask 077

if [ -n "${WEIR_LEDGER_PASSWORD_FILE:-}" ]; then
    PGPASSWORD=$(cat "$WEIR_LEDGER_PASSWORD_FILE")
    export PGPASSWORD
fi

prepare() {
    python "$(dirname "$0")/first_config.py" "$CURATOR_DIR/curator.toml"
    curator init "$CURATOR_DIR" >/dev/null # standard output is the command's own
}

case "${1:-serve} ${2:-}" in
"serve "*)
    prepare
    [ $# -eq 0 ] || shift
    # A container's own addresses: who may reach them is decided where its ports are published.
    exec curator serve --dir "$CURATOR_DIR" --grpc-host 0.0.0.0 --grpc-port 50051 \
        --rest-host 0.0.0.0 --rest-port 8080 --rest-health-port 8081 "$@"
    ;;
"init ")
    prepare
    ;;
"budget "* | "key "* | "plan "*)
    prepare
    word=$1
    shift
    exec curator "$word" --dir "$CURATOR_DIR" "$@"
    ;;
"doctor "*)
    shift # it looks at the folder as it is, and makes nothing
    exec curator doctor --dir "$CURATOR_DIR" "$@"
    ;;
"dataset check" | "ledger verify" | "dataset -"* | "analyst -"* | "ledger -"*)
    exec curator "$@" # they need no folder
    ;;
"dataset "?* | "analyst "?* | "ledger "?*)
    prepare
    group=$1 action=$2
    shift 2
    exec curator "$group" "$action" --dir "$CURATOR_DIR" "$@"
    ;;
*)
    exec curator "$@"
    ;;
esac

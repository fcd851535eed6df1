#!/bin/sh
# A stand-in for the start of the official PostgreSQL image: make a database once, then serve it.
set -eu
PGDATA=${PGDATA:-/var/lib/postgresql/data}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # shellcheck disable=SC2086 # options
    initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth-local=trust --auth-host=scram-sha-256 ${POSTGRES_INITDB_ARGS:-}
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    pg_ctl --pgdata="$PGDATA" --wait --options="-c listen_addresses= -k /tmp" start
    createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --pgdata="$PGDATA" --wait stop
fi
exec postgres -D "$PGDATA" -c "listen_addresses=*" -k /run/postgresql

# What the scripts in this folder share; sourced, never run. See README.md.
#
# `begin NAME [AGENTCTL]` makes a private folder $WORK that goes with the script, finds or builds agentctl ($AGENTCTL) and
# says where packages are installed ($PARTS: a folder in $WORK, or $REAL_PARTS to keep them for the next run).
# `start NAME COMMAND...` starts a server in the background, `await NAME URL` waits until it answers. At the end, however it
# comes, exactly the processes that were started here are ended, by pid. KEEP=1 leaves $WORK for a look.

set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
STARTED=()

begin() {
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/agentd-real-$1.XXXXXX")
    trap finish EXIT
    trap 'exit 130' INT TERM HUP
    PARTS=${REAL_PARTS:-$WORK/parts}
    mkdir -p "$PARTS"
    AGENTCTL=${2:-${AGENTCTL:-}}
    if [ -z "$AGENTCTL" ]; then
        (cd "$ROOT" && cargo build --quiet --bin agentctl)
        AGENTCTL=${CARGO_TARGET_DIR:-$ROOT/target}/debug/agentctl
    fi
    AGENTCTL=$(realpath "$AGENTCTL")
    export PYTHONDONTWRITEBYTECODE=1 AGENTCTL WORK
    unset AGENTD_HOME AGENTD_SOCKET
}

finish() {
    local code=$? pid
    set +e # a server that ends by a signal is no error, and the next one must be ended all the same
    for pid in "${STARTED[@]:-}"; do
        [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    if [ "${KEEP:-}" = 1 ]; then
        echo "kept: $WORK" >&2
    else
        rm -rf "$WORK"
    fi
    exit "$code"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# A Python environment with these packages at $PARTS/NAME, made once.
python_parts() {
    local name=$1
    shift
    if [ ! -e "$PARTS/$name/.done" ]; then
        python3 -m venv "$PARTS/$name"
        "$PARTS/$name/bin/pip" install --quiet --disable-pip-version-check "$@"
        touch "$PARTS/$name/.done"
    fi
}

start() {
    local name=$1
    shift
    "$@" >"$WORK/$name.log" 2>&1 &
    STARTED+=($!)
    printf -v "PID_$name" %s $!
}

await() {
    local pid_of="PID_$1" deadline=$((SECONDS + 60))
    until curl --silent --fail --output /dev/null --max-time 2 "$2"; do
        if ! kill -0 "${!pid_of}" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
            echo "$1 does not answer at $2; the end of its log:" >&2
            tail -n 20 "$WORK/$1.log" >&2
            exit 1
        fi
        sleep 0.2
    done
}

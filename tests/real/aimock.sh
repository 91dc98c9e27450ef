#!/usr/bin/env bash
# Whole conversations with a mock of the providers' APIs: aimock (npm).
#
# Proves: scripted conversations end as the contract says, by both dialects, with exit codes, our log, the bytes on the wire and
#   aimock's own journal held against one another: calls and parallel calls, thinking and its signature sent back unchanged,
#   odd ids, every stop word, errors with and without Retry-After, answers that are cut, and random chaos (500, 429, garbage
#   instead of a stream, dropped connections). The key arrives as the dialect wants it and is in none of our files.
# Installs: npm @copilotkit/aimock 1.43.0 (no dependencies, 12 MB); needs Node 20.15 or later.
# Takes: about 60 s for each dialect. Loopback only.
#
#   tests/real/aimock.sh [AGENTCTL]          TURNS=N chaotic turns (12), REAL_PARTS=DIR keeps the packages, KEEP=1 the work folder

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin aimock "${1:-}"

if [ ! -e "$PARTS/aimock/.done" ]; then
    mkdir -p "$PARTS/aimock"
    npm install --prefix "$PARTS/aimock" --silent --no-audit --no-fund @copilotkit/aimock@1.43.0
    touch "$PARTS/aimock/.done"
fi
bin="$PARTS/aimock/node_modules/.bin"
"$bin/aimock" validate "$HERE/aimock" >"$WORK/validate.log" 2>&1 || { cat "$WORK/validate.log" >&2; exit 1; }
port=$(free_port)
export AIMOCK_API_KEYS=key-of-the-real-parts-7431 MOCK_KEY=key-of-the-real-parts-7431
start aimock "$bin/llmock" -h 127.0.0.1 -p "$port" -f "$HERE/aimock" --strict -c 8 --log-level warn
await aimock "http://127.0.0.1:$port/health"
python3 "$HERE/aimock.py" "http://127.0.0.1:$port" "${TURNS:-12}"

#!/usr/bin/env bash
# A server that breaks on purpose and judges the client: llmock (PyPI).
#
# Proves: under random 429, 529 and cut streams every turn still ends as it should, and llmock's own verdict on us is clean,
#   warnings included: Retry-After obeyed, growing waits, no storm, no retry of what cannot succeed, no cut or malformed stream
#   taken for an answer, a stalled one given up. Then the same faults one by one, scripted, with our log held against them.
# Installs: PyPI llmock 0.2.2 (with FastAPI; 40 MB).
# Takes: one to three minutes for each dialect, most of it waiting as the server asks. Loopback only.
#
#   tests/real/llmock.sh [AGENTCTL]          TURNS=N random turns (12), REAL_PARTS=DIR keeps the packages, KEEP=1 the work folder

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin llmock "${1:-}"

python_parts llmock llmock==0.2.2
export LLMOCK="$PARTS/llmock/bin/llmock"
random=$(free_port)
start random "$LLMOCK" serve --host 127.0.0.1 --port "$random" --log-level warning \
    --response-style hello --error-rate 529=0.2 --error-rate-429 0.2 --stream-fault truncate=0.15
# A pause between chunks: a client that goes away in the middle is then seen to go, and not taken for one that read on.
scripted=$(free_port)
start scripted "$LLMOCK" serve --host 127.0.0.1 --port "$scripted" --log-level warning --response-style hello \
    --stream-chunk-delay-ms 30
await random "http://127.0.0.1:$random/health"
await scripted "http://127.0.0.1:$scripted/health"
python3 "$HERE/llmock.py" "http://127.0.0.1:$random" "http://127.0.0.1:$scripted" "${TURNS:-12}"

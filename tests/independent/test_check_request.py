#!/usr/bin/env python3
"""Checks the independent checker of requests: `python3 tests/independent/test_check_request.py`.

A request in order brings no complaint; each way to break it brings the one that names it.
"""

import copy
import sys
import unittest

sys.dont_write_bytecode = True
import check_request  # noqa: E402 (beside this file; no cache folder may appear there)

ANTHROPIC = {
    "model": "m", "max_tokens": 9, "stream": True, "system": "s",
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "so"},
                                          {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                                          {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "2"},
                                     {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                                     {"type": "text", "text": "and on"}]},
    ],
}
OPENAI = {
    "model": "m", "stream": True, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}]},
    ],
}


class Requests(unittest.TestCase):
    def complain(self, good, change, word):
        body = copy.deepcopy(good)
        change(body)
        said = check_request.conversation([(None, body)])
        self.assertTrue(any(word in complaint for complaint in said), (word, said))

    def test_good_requests_are_good(self):
        self.assertEqual(check_request.conversation([(None, ANTHROPIC)]), [])
        self.assertEqual(check_request.conversation([(None, OPENAI)]), [])

    def test_each_way_to_break_an_anthropic_request(self):
        said, results = (lambda body: body["messages"][1]["content"]), (lambda body: body["messages"][2]["content"])
        for change, word in (
            (lambda body: results(body).pop(0), "are answered by"),
            (lambda body: results(body).append(copy.deepcopy(results(body)[0])), "are answered by"),
            (lambda body: results(body).insert(0, {"type": "text", "text": "first"}), "before the tool results"),
            (lambda body: said(body).append({"type": "text", "text": "after"}), "follows a tool_use"),
            (lambda body: said(body)[1].update(text=" \n"), "empty text"),
            (lambda body: said(body)[0].pop("signature"), "without a signature"),
            (lambda body: said(body)[2].update(input="{}"), "no object"),
            (lambda body: (said(body)[2].update(id="x:0"), results(body)[1].update(tool_use_id="x:0")), "id 'x:0'"),
            (lambda body: (said(body)[2].update(id="b"), results(body)[1].update(tool_use_id="b")), "id 'b'"),
            (lambda body: body["messages"].pop(), "end with the assistant"),
            (lambda body: body["messages"].pop(0), "begin with the user"),
            (lambda body: body.update(temperature=1), "temperature"),
            (lambda body: body.update(max_tokens=0), "max_tokens"),
            (lambda body: body.pop("stream"), "stream"),
            (lambda body: body.pop("tools"), "no tools"),
            (lambda body: body["tools"][0].update(name="a.b"), "tool name"),
            (lambda body: [part.update(cache_control={}) for message in body["messages"] for part in message["content"]], "cache marks"),
        ):
            self.complain(ANTHROPIC, change, word)

    def test_each_way_to_break_an_openai_request(self):
        call = lambda body: body["messages"][2]["tool_calls"][0]  # noqa: E731
        for change, word in (
            (lambda body: body["messages"].pop(), "open at the end"),
            (lambda body: body["messages"].insert(3, {"role": "user", "content": "x"}), "not answered before"),
            (lambda body: body["messages"].append({"role": "tool", "tool_call_id": "a", "content": "x"}), "answers no open call"),
            (lambda body: body["messages"][4]["content"].append({"type": "image_url"}), "only hold text"),
            (lambda body: call(body)["function"].update(arguments={}), "not the text of a JSON object"),
            (lambda body: call(body)["function"].update(arguments="{"), "not the text of a JSON object"),
            (lambda body: call(body)["function"].update(name=""), "name ''"),
            (lambda body: call(body).update(id=""), "empty or used twice"),
            (lambda body: body["messages"].insert(2, {"role": "assistant", "content": None}), "says nothing"),
            (lambda body: body["messages"].insert(2, {"role": "assistant", "content": "x", "tool_calls": []}), "empty list"),
            (lambda body: body["messages"].append({"role": "assistant", "content": "x"}), "end with the assistant"),
            (lambda body: body["tools"][0]["function"].update(name="x" * 65), "tool name"),
        ):
            self.complain(OPENAI, change, word)


class Conversations(unittest.TestCase):
    def then(self, change, *more):
        later = copy.deepcopy(ANTHROPIC)
        later["messages"] += [{"role": "assistant", "content": [{"type": "text", "text": "done"}]}, {"role": "user", "content": "next"}]
        change(later)
        return check_request.conversation([(None, ANTHROPIC), (None, later, *more)])

    def test_growing_is_no_change(self):
        self.assertEqual(self.then(lambda body: None), [])
        self.assertEqual(self.then(lambda body: body["messages"][0]["content"][0].update(cache_control={"type": "ephemeral"})), [])

        def grow(body):
            body["messages"] = copy.deepcopy(ANTHROPIC["messages"])
            body["messages"][-1]["content"].append({"type": "text", "text": "more"})
        self.assertEqual(self.then(grow), [])

    def test_a_last_text_of_the_user_may_grow_but_not_change(self):
        def asks(text):
            return None, {**OPENAI, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}]}
        self.assertEqual(check_request.conversation([asks("go"), asks("go\n\non")]), [])
        self.assertIn("said earlier", check_request.conversation([asks("go"), asks("stop")])[0])

    def test_changes_are_named(self):
        self.assertIn("said earlier", self.then(lambda body: body["messages"][0]["content"][0].update(text="other"))[0])
        self.assertIn("said earlier", self.then(lambda body: body["messages"][1]["content"].pop(0))[0])
        self.assertIn("changed", self.then(lambda body: body.update(system="other"))[0])
        self.assertIn("changed", self.then(lambda body: body["tools"].append({"name": "g", "input_schema": {}}))[0])

    def test_a_pause_is_sent_back_as_it_is(self):
        self.assertEqual(self.then(lambda body: body["messages"].pop(), True), [])
        self.assertIn("paused", self.then(lambda body: None, True)[0])


if __name__ == "__main__":
    unittest.main()

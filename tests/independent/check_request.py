#!/usr/bin/env python3
"""Says what a provider would refuse in requests that were sent to it. A second opinion for the request builder.

Like the reader beside it, this was written from the providers' rules and not from the builder or its validator; only the
standard library is used.

    check_request.py [--dialect anthropic|openai-chat] BODY.json...

The files are the bodies of one conversation, in the order in which they were sent. One complaint a line; exit code 1 when
there are any. Without --dialect a body with a top-level `system` or `max_tokens` and tools with `input_schema` counts as
anthropic.

Anthropic: begins with a user message and ends with one; every `tool_use` is answered in the very next message, once, results
before anything else, and no result answers nothing; nothing follows a `tool_use` but further ones; ids and names are of the
allowed characters; no empty text; tools wherever tool blocks are; no more than four cache marks; streaming, a positive
max_tokens, no sampling parameters, no prefill.
OpenAI: every assistant message with tool_calls is followed at once by one tool message for each id; `arguments` is text that
holds a JSON object; no tool message without a call; no assistant message that says nothing.
Both, over the whole conversation: system and tools never change, and nothing said earlier changes (cache marks aside; the last
user message may have grown): providers keep a cache by the prefix and bind reasoning to it.
"""

import argparse
import json
import pathlib
import re
import sys

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
ID = re.compile(r"[a-zA-Z0-9_-]+\Z")


def parts(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content if isinstance(content, list) else []


def without_marks(value):
    """The value without cache marks, at any depth."""
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def count_marks(value):
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(count_marks(item) for key, item in value.items() if key != "cache_control")
    return sum(count_marks(item) for item in value) if isinstance(value, list) else 0


def anthropic(body, continues=False):
    messages, said = body.get("messages") or [], []
    if not messages or messages[0].get("role") != "user":
        said.append("the messages must begin with the user")
    if messages and (messages[-1].get("role") == "assistant") != continues:
        said.append("the answer that paused is not at the end" if continues else "the messages must not end with the assistant")
    if not (isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0):
        said.append("max_tokens must be a positive number")
    if body.get("stream") is not True:
        said.append("stream is not true")
    said += [f"{name} is refused by newer models" for name in ("temperature", "top_p", "top_k") if name in body]
    if count_marks(body) > 4:
        said.append("more than four cache marks")
    said += [f"tool name {tool.get('name')!r}" for tool in body.get("tools") or [] if not NAME.match(tool.get("name") or "")]
    open_ids, seen = [], set()
    for number, message in enumerate(messages):
        content, where = parts(message), f"message {number}"
        kinds = [part.get("type") for part in content]
        said += [f"{where}: {complaint}" for complaint in anthropic_message(message.get("role"), content, kinds, open_ids)]
        open_ids = [part["id"] for part in content if part.get("type") == "tool_use"]
        for one in open_ids:
            if not ID.match(one) or one in seen:
                said.append(f"{where}: id {one!r} is not allowed, or used twice")
            seen.add(one)
        if ("tool_use" in kinds or "tool_result" in kinds) and not body.get("tools"):
            said.append(f"{where}: tool blocks, but no tools")
    if open_ids:
        said.append("open calls at the end")
    return said


def anthropic_message(role, content, kinds, open_ids):
    said = []
    if not content:
        said.append("no content")
    said += ["empty text" for part in content if part.get("type") == "text" and not (part.get("text") or "").strip()]
    answered = [part.get("tool_use_id") for part in content if part.get("type") == "tool_result"]
    if sorted(answered) != sorted(open_ids):
        said.append(f"calls {open_ids} are answered by {answered}")
    if role == "user" and answered and kinds[:len(answered)] != ["tool_result"] * len(answered):
        said.append("something stands before the tool results")
    if role == "assistant" and "tool_use" in kinds and set(kinds[kinds.index("tool_use"):]) != {"tool_use"}:
        said.append("something follows a tool_use")
    said += ["the input of a call is no object" for part in content
             if part.get("type") == "tool_use" and not isinstance(part.get("input"), dict)]
    said += ["thinking without a signature" for part in content if part.get("type") == "thinking" and not part.get("signature")]
    return said


def openai_chat(body, _continues=False):
    messages, said, open_ids = body.get("messages") or [], [], []
    if body.get("stream") is not True:
        said.append("stream is not true")
    if not messages or messages[-1].get("role") == "assistant":
        said.append("the messages must not end with the assistant")
    said += [f"tool name {name!r}" for name in names(body) if not NAME.match(name) or len(name) > 64]
    for number, message in enumerate(messages):
        role, where = message.get("role"), f"message {number}"
        if role == "tool":
            if message.get("tool_call_id") in open_ids:
                open_ids.remove(message["tool_call_id"])
            else:
                said.append(f"{where}: answers no open call")
            if any(part.get("type") != "text" for part in parts(message)):
                said.append(f"{where}: a tool result may only hold text")
            continue
        if open_ids:
            said.append(f"{where}: calls {open_ids} are not answered before it")
            open_ids = []
        calls = message.get("tool_calls") or []
        if role == "assistant" and not calls and not message.get("content"):
            said.append(f"{where}: an assistant message that says nothing")
        if "tool_calls" in message and not calls:
            said.append(f"{where}: an empty list of tool_calls")
        for call in calls:
            said += [f"{where}: {complaint}" for complaint in openai_call(call, open_ids)]
    if open_ids:
        said.append(f"calls {open_ids} are open at the end")
    return said


def openai_call(call, open_ids):
    said, function = [], call.get("function") or {}
    if not call.get("id") or call["id"] in open_ids:
        said.append(f"id {call.get('id')!r} is empty or used twice")
    open_ids.append(call.get("id"))
    if call.get("type") != "function" or not NAME.match(function.get("name") or ""):
        said.append(f"type {call.get('type')!r}, name {function.get('name')!r}")
    try:
        whole = isinstance(function.get("arguments"), str) and isinstance(json.loads(function["arguments"]), dict)
    except ValueError:
        whole = False
    return said if whole else said + ["arguments are not the text of a JSON object"]


def names(body):
    return [(tool.get("function") or {}).get("name") or "" for tool in body.get("tools") or []]


def dialect_of(body):
    tools = body.get("tools") or [{}]
    return "anthropic" if "system" in body or "input_schema" in tools[0] else "openai-chat"


def spoken(body):
    """All that was said, in order, as a flat list, so that a message that grew still begins as it did."""
    return [(message.get("role"), {**without_marks(message), "content": None}, without_marks(part))
            for message in body.get("messages") or [] for part in parts(message) or [None]]


def begins_with(now, before):
    """Whether what was said `before` still stands at the beginning of `now`; a last text of the user may have grown."""
    if not before or now[:len(before)] == before:
        return True
    (role, rest, part), at = before[-1], len(before) - 1
    if now[:at] != before[:at] or len(now) <= at or (role, rest) != ("user", now[at][1]) or (part or {}).get("type") != "text":
        return False
    grown = now[at][2] or {}
    return grown.get("type") == "text" and grown["text"].startswith(part["text"])


def conversation(requests):
    """Complaints about [(dialect or None, body, continues)], in the order of sending.

    `continues` (may be left out): the answer before was a pause, so the request sends it back as it is.
    """
    said, before = [], None
    for number, (dialect, body, *continues) in enumerate(requests, start=1):
        check = anthropic if (dialect or dialect_of(body)) == "anthropic" else openai_chat
        said += [f"request {number}: {complaint}" for complaint in check(body, *continues)]
        head = without_marks({key: body.get(key) for key in ("model", "system", "tools")})
        if before is not None:
            if head != before[0]:
                said.append(f"request {number}: model, system or tools changed")
            if not begins_with(spoken(body), before[1]):
                said.append(f"request {number}: what was said earlier changed")
        before = head, spoken(body)
    return said


def main():
    options = argparse.ArgumentParser(description="Say what a provider would refuse in these requests.")
    options.add_argument("files", type=pathlib.Path, nargs="+")
    options.add_argument("--dialect", choices=("anthropic", "openai-chat"))
    options = options.parse_args()
    said = conversation([(options.dialect, json.loads(path.read_bytes())) for path in options.files])
    print("".join(f"{complaint}\n" for complaint in said), end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())

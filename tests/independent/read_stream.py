#!/usr/bin/env python3
"""Reads one recorded provider stream and says what it holds. A second opinion for the decoders.

It was written from descriptions of the wire formats and from recorded bytes, without a look at the decoders of
the daemon, and it shares nothing with them: not the language, not the JSON library, not the way of thinking. A test
runs it over every recorded stream and compares its answer with theirs. Only the standard library is used.

    read_stream.py FILE [--dialect anthropic|openai-chat]

Without --dialect the folder decides (`anthropic`, `openai-chat`), or in other folders the beginning of the file name
(`anthropic_...`, `openai_...`). Exit code 0 with one JSON document on stdout, 2 when the file cannot be read as a stream.

The document:

    dialect    "anthropic" | "openai-chat"
    message_id first id that is not empty, or null        model   likewise
    ending     "complete"  the stream ended by its own word
               "error"     the stream reported an error, or an event was not JSON (error.type "malformed_event")
               "cut"       neither: what is here may be half of the answer
    complete   ending == "complete"
    error      null | {type, code, message}; code as the provider sent it (number or text), each may be null
    stop       {word, class, detail}. word: the provider's own word or null. class: end_turn | tool_use | max_tokens |
               refusal | pause_turn | context_exceeded | unknown | null (no word and not complete).
               detail: Anthropic's `stop_sequence` text or the category of a refusal, else null.
               The class is that of the WORD, except: OpenAI's "stop" with tool calls is tool_use (servers say "stop"
               there), "stop" with a `refusal` text is refusal, and a stream with [DONE] but no word is tool_use or
               end_turn by what it holds.
    usage      null when never reported, else {input, output, cache_read, cache_write} in tokens. `input` never contains
               cached tokens: it is what was read fresh. `output` contains reasoning.
    blocks     in order, each:
               kind      text | thinking | redacted_thinking | tool_use | other
               type      the provider's own name of it ("text", "server_tool_use", "reasoning_content", ...)
               complete  the model finished writing it (see below)
               text      for text and thinking, and for other blocks that carry text (compaction, refusal)
               signature thinking, when there is one        data   redacted_thinking: the opaque text
               id, name  tool_use and other blocks that have them; null when none ever came
               args      the parsed JSON, or the text as it came when it is not JSON; {} for "no text at all"
               args_text the text as it came            args_valid  it is one JSON object
               extra     OpenAI tool calls: fields that are not part of the format, to be sent back (signatures)
    warnings   what was odd; for people, not for comparison

Rules that a reader of the answer must know.

Anthropic. Dispatch is on `type` in the data, never on the `event:` line. Events of unknown type are skipped, and all
    that follow `message_stop`. Blocks are keyed by `index`; a second `message_start` with the same id is ignored, one
    with another id begins the message again (what came before is dropped). `signature_delta` replaces. Usage of
    `message_delta` overwrites field by field. A block is complete when its `content_block_stop` came. Ended by its own
    word = a stop_reason and `message_stop`.
OpenAI. One run of content deltas is one text block, one run of reasoning deltas one thinking block; tool calls come
    last, in order of appearance. A tool call is keyed by `index`, a different non-empty id under the same index is another
    call, and without index the id decides, then the name; known ids and names are never overwritten. Where `reasoning` and
    `reasoning_details` carry the same text it counts once. Usage is the last one reported. Blocks are complete when the
    stream is. Ended by its own word = a finish_reason, or [DONE] without one (with a warning).
Both. A tool call at the very end of an answer that ran into its token limit is complete only if its arguments are one
    JSON object; some servers close such a block, some never opened one.
"""

import argparse
import json
import pathlib
import sys


def events(raw):
    """Yields (event name, data) as the SSE format says; a last event without a blank line behind it counts too."""
    text = raw.decode("utf-8-sig", errors="replace")
    name, data = None, []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line == "":
            if data:
                yield name, "\n".join(data), True
            name, data = None, []
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value
    if data:
        yield name, "\n".join(data), False


def refuse_constant(word):
    raise ValueError(f"{word} is not JSON")


def parse(text):
    """Strict JSON: no NaN, no Infinity."""
    return json.loads(text, parse_constant=refuse_constant)


def number(value):
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def pieces_of(value):
    """Texts inside a string, or inside a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(pieces_of(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def finish_arguments(block, text, whole=None):
    """Fills args, args_text and args_valid from the collected text; `whole` is an object that came in one piece."""
    block["args_text"] = text
    if text == "":
        block["args"] = whole if whole else {}
        block["args_valid"] = isinstance(block["args"], dict)
        return
    try:
        block["args"] = parse(text)
        block["args_valid"] = isinstance(block["args"], dict)
    except ValueError:
        block["args"], block["args_valid"] = text, False


def mark_cut_call(answer, nothing_is_cut):
    """The last call of an answer that ran into its limit was perhaps never finished.

    `nothing_is_cut`: a call without any argument text counts as cut too, because nothing says that it was closed.
    """
    if answer["stop"]["class"] not in ("max_tokens", "context_exceeded") or not answer["blocks"]:
        return
    last = answer["blocks"][-1]
    if "args_valid" in last and (not last["args_valid"] or (nothing_is_cut and not last["args_text"] and not last["args"])):
        last["complete"] = False


class Reader:
    """What both dialects share: the document under way."""

    def __init__(self, dialect):
        self.dialect = dialect
        self.message_id = self.model = self.error = self.word = self.detail = None
        self.warnings = []

    def warn(self, text):
        if text not in self.warnings:
            self.warnings.append(text)

    def fail(self, error):
        """Takes the error of the provider in any of the forms in which it comes; the first one counts."""
        if isinstance(error, list) and error:
            error = error[0]
        if isinstance(error, dict) and "error" in error and not isinstance(error["error"], (bool, int)):
            return self.fail(error["error"])
        if self.error is not None:
            return None
        if isinstance(error, dict):
            message = error.get("message")
            self.error = {"type": error.get("type"), "code": error.get("code"),
                          "message": message if isinstance(message, str) else json.dumps(error)}
        else:
            self.error = {"type": None, "code": None, "message": str(error)}
        return None

    def read(self, raw):
        for name, data, closed in events(raw):
            try:
                value = None if data.strip() == "[DONE]" else parse(data)
            except ValueError:
                if not closed:
                    self.warn("the last event is cut in the middle")
                    continue
                self.fail({"type": "malformed_event", "message": "an event is not JSON: " + data[:80]})
                break
            if self.take(name, value):
                break
        return self.answer()

    def document(self, stop_class, ended, blocks, usage):
        ending = "error" if self.error else "complete" if ended else "cut"
        return {"dialect": self.dialect, "message_id": self.message_id, "model": self.model, "ending": ending,
                "complete": ending == "complete", "error": self.error,
                "stop": {"word": self.word, "class": stop_class, "detail": self.detail},
                "usage": usage, "blocks": blocks, "warnings": self.warnings}


class Anthropic(Reader):
    CLASSES = {"end_turn": "end_turn", "stop_sequence": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens",
               "refusal": "refusal", "pause_turn": "pause_turn", "model_context_window_exceeded": "context_exceeded"}
    USAGE = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_input_tokens",
             "cache_write": "cache_creation_input_tokens"}
    KINDS = {"text": "text", "thinking": "thinking", "redacted_thinking": "redacted_thinking", "tool_use": "tool_use"}

    def __init__(self):
        super().__init__("anthropic")
        self.blocks, self.usage, self.stopped, self.started = {}, {}, False, False

    def take(self, _name, value):
        kind = value.get("type") if isinstance(value, dict) else None
        if self.stopped:
            if kind == "error":
                self.warn("an error event after message_stop was ignored")
            return False
        if kind == "error":
            self.fail(value.get("error"))
        elif kind == "message_start":
            self.start(value.get("message") or {})
        elif kind == "content_block_start":
            self.open(value.get("index"), value.get("content_block") or {})
        elif kind == "content_block_delta":
            self.grow(value.get("index"), value.get("delta") or {})
        elif kind == "content_block_stop":
            if value.get("index") in self.blocks:
                self.blocks[value["index"]]["closed"] = True
            else:
                self.warn("a content_block_stop for a block that never began")
        elif kind == "message_delta":
            self.end(value)
        elif kind == "message_stop":
            self.stopped = True
        elif kind != "ping":
            self.warn(f"an event of unknown type {kind!r} was skipped")
        return self.error is not None

    def start(self, message):
        if self.started and message.get("id") == self.message_id:
            return self.warn("message_start came twice")
        if self.started:
            self.warn("another message began in the middle; the first one was dropped")
            self.blocks, self.usage, self.word, self.detail = {}, {}, None, None
        self.started = True
        self.message_id, self.model = message.get("id"), message.get("model")
        self.add_usage(message.get("usage"))
        return None

    def add_usage(self, usage):
        if isinstance(usage, dict):
            self.usage.update({key: value for key, value in usage.items() if value is not None})

    def open(self, index, shell):
        if index in self.blocks:
            self.warn(f"block {index} began twice; the later one counts")
            del self.blocks[index]
        self.blocks[index] = {"shell": shell, "text": "", "json": "", "signature": shell.get("signature"), "closed": False}
        block = self.blocks[index]
        block["text"] = pieces_of(shell.get(shell.get("type"))) if shell.get("type") in ("text", "thinking") else ""

    def grow(self, index, delta):
        block, kind = self.blocks.get(index), delta.get("type")
        if block is None:
            self.warn("a delta for a block that never began was dropped")
        elif kind == "text_delta":
            block["text"] += delta.get("text") or ""
        elif kind == "thinking_delta":
            block["text"] += delta.get("thinking") or ""
        elif kind == "signature_delta":
            block["signature"] = delta.get("signature")
        elif kind == "input_json_delta":
            block["json"] += delta.get("partial_json") or ""
        elif kind == "compaction_delta":
            block["text"] += delta.get("content") or ""
        elif kind != "citations_delta":
            self.warn(f"a delta of unknown type {kind!r} was skipped")

    def end(self, value):
        delta = value.get("delta") or {}
        self.word = delta.get("stop_reason") or self.word
        details = delta.get("stop_details")
        refused = details.get("category") if isinstance(details, dict) else None
        self.detail = delta.get("stop_sequence") or refused or self.detail
        self.add_usage(value.get("usage"))

    def block(self, source):
        shell = source["shell"]
        kind = self.KINDS.get(shell.get("type"), "other")
        out = {"kind": kind, "type": shell.get("type"), "complete": source["closed"]}
        if kind in ("text", "thinking") or source["text"]:
            out["text"] = source["text"]
        if kind == "thinking" and source["signature"]:
            out["signature"] = source["signature"]
        if kind == "redacted_thinking":
            out["data"] = shell.get("data")
        if kind == "tool_use" or "input" in shell or source["json"]:
            out["id"], out["name"] = shell.get("id") or None, shell.get("name") or None
            finish_arguments(out, source["json"], shell.get("input"))
        return out

    def answer(self):
        blocks = [self.block(self.blocks[index]) for index in self.blocks]
        usage = {name: number(self.usage.get(key)) for name, key in self.USAGE.items()} if self.usage else None
        stop_class = None if self.word is None else self.CLASSES.get(self.word, "unknown")
        answer = self.document(stop_class, self.stopped and self.word is not None, blocks, usage)
        mark_cut_call(answer, nothing_is_cut=False)
        return answer


class OpenAiChat(Reader):
    CLASSES = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use",
               "content_filter": "refusal"}

    def __init__(self):
        super().__init__("openai-chat")
        self.parts, self.calls, self.usage, self.done = [], [], None, False

    def take(self, name, value):
        if value is None:
            self.done = True
            return True
        if isinstance(value, list) and value and isinstance(value[0], dict) and "error" in value[0]:
            self.fail(value)
            return True
        if not isinstance(value, dict):
            self.warn("an event that is no object was skipped")
            return False
        self.message_id, self.model = self.message_id or value.get("id") or None, self.model or value.get("model") or None
        for choice in value.get("choices") or []:
            if isinstance(choice, dict) and number(choice.get("index")) == 0:
                self.choice(choice)
        self.count(value)
        if value.get("error"):
            self.fail(value["error"])
        elif name == "error":
            self.fail(value)
        return False

    def count(self, value):
        for usage in ((value.get("x_groq") or {}).get("usage"), value.get("usage")):
            if isinstance(usage, dict) and usage:
                self.usage = usage

    def choice(self, choice):
        delta = choice.get("delta") or choice.get("message") or {}
        self.reasoning(delta)
        content = delta.get("content")
        if isinstance(content, list):
            for part in content:
                if isinstance(part, dict) and part.get("type") == "thinking":
                    self.add("thinking", "thinking", pieces_of(part.get("thinking")))
                elif isinstance(part, dict):
                    self.add("text", "text", pieces_of(part.get("text")))
        else:
            self.add("text", "text", pieces_of(content))
        self.add("other", "refusal", pieces_of(delta.get("refusal")))
        for call in delta.get("tool_calls") or []:
            self.call(call)
        if isinstance(delta.get("function_call"), dict):
            self.call({"function": delta["function_call"]})
        self.word = choice.get("finish_reason") or self.word
        if isinstance(choice.get("usage"), dict):
            self.usage = choice["usage"]

    def reasoning(self, delta):
        found = False
        for field in ("reasoning_content", "reasoning"):
            text = pieces_of(delta.get(field))
            if text and not found:
                self.add("thinking", field, text)
                found = True
        for detail in delta.get("reasoning_details") or []:
            if not isinstance(detail, dict):
                continue
            if detail.get("type") == "reasoning.encrypted":
                self.parts.append({"kind": "redacted_thinking", "type": "reasoning.encrypted", "data": detail.get("data")})
                continue
            text = detail.get("text") or detail.get("summary") or ""
            if text and not found:
                self.add("thinking", "reasoning_details", text)
            if detail.get("signature") and self.parts and self.parts[-1]["kind"] == "thinking":
                self.parts[-1]["signature"] = detail["signature"]

    def add(self, kind, name, text):
        if not text:
            return
        if self.parts and self.parts[-1]["kind"] == kind:
            self.parts[-1]["text"] += text
        else:
            self.parts.append({"kind": kind, "type": name, "text": text})

    def call(self, piece):
        if not isinstance(piece, dict):
            return
        function = piece.get("function") if isinstance(piece.get("function"), dict) else {}
        index, call_id, name = piece.get("index"), piece.get("id") or None, function.get("name") or None
        arguments = function.get("arguments")
        call = self.find(index, call_id, name)
        if call is None:
            call = {"index": index, "id": None, "name": None, "text": "", "whole": None, "extra": {}}
            self.calls.append(call)
            self.parts.append({"kind": "call"})  # ends the run of text before it
        call["id"], call["name"] = call["id"] or call_id, call["name"] or name
        if isinstance(arguments, str):
            call["text"] += arguments
        elif arguments is not None:
            call["whole"] = arguments
        known = ("index", "id", "type", "function")
        call["extra"].update({key: value for key, value in piece.items() if key not in known and value is not None})

    def find(self, index, call_id, name):
        """The call that a piece belongs to, or None for a new one."""
        if index is None:
            same = [call for call in self.calls if call_id and call["id"] == call_id]
            if call_id or not self.calls:
                fresh = self.calls[-1] if self.calls and not self.calls[-1]["id"] and not self.is_whole(self.calls[-1]) else None
                return same[-1] if same else (fresh if fresh and not name else None)
            last = self.calls[-1]
            return None if name and (last["name"] and self.is_whole(last)) else last
        under = [call for call in self.calls if call["index"] == index]
        if not under:
            return None
        last = under[-1]
        if call_id and last["id"] and call_id != last["id"]:
            again = [call for call in under if call["id"] == call_id]
            return again[-1] if again else None
        if not call_id and name and last["name"] and self.is_whole(last):
            self.warn("a second call under a used index, without an id")
            return None
        return last

    @staticmethod
    def is_whole(call):
        """Its arguments are already one JSON object, so a new name cannot belong to it."""
        try:
            return call["whole"] is not None or isinstance(parse(call["text"]), dict)
        except ValueError:
            return False

    def tokens(self):
        usage = self.usage
        if not usage:
            return None
        prompt, output, total = (number(usage.get(key)) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
        inside, outside = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        read = number(inside.get("cached_tokens")) or number(usage.get("prompt_cache_hit_tokens"))
        write, reasoning = number(inside.get("cache_write_tokens")), number(outside.get("reasoning_tokens"))
        if reasoning and total == prompt + output + reasoning:
            output += reasoning
        return {"input": max(prompt - read - write, 0), "output": output, "cache_read": read, "cache_write": write}

    def stop_class(self):
        if any(part.get("type") == "refusal" for part in self.parts) and self.word in (None, "stop"):
            return "refusal" if self.word or self.done else None
        if self.word is None:
            if not self.done or self.error:
                return None
            self.warn("the stream said [DONE] but never why it stopped")
            return "tool_use" if self.calls else "end_turn"
        if self.word == "stop" and self.calls:
            self.warn("finish_reason stop, although there are tool calls")
            return "tool_use"
        return self.CLASSES.get(self.word, "unknown")

    def answer(self):
        ended = self.error is None and (self.word is not None or self.done)
        blocks = []
        for part in self.parts:
            if part["kind"] != "call":
                blocks.append({"kind": part["kind"], "type": part["type"], "complete": ended,
                               **{key: value for key, value in part.items() if key not in ("kind", "type")}})
        for call in self.calls:
            block = {"kind": "tool_use", "type": "function", "complete": ended, "id": call["id"], "name": call["name"]}
            finish_arguments(block, call["text"], call["whole"])
            if call["extra"]:
                block["extra"] = call["extra"]
            blocks.append(block)
        answer = self.document(self.stop_class(), ended, blocks, self.tokens())
        mark_cut_call(answer, nothing_is_cut=True)
        return answer


def dialect_of(path):
    folder, name = path.resolve().parent.name, path.name
    if folder in ("anthropic", "openai-chat"):
        return folder
    if name.startswith("anthropic"):
        return "anthropic"
    if name.startswith("openai"):
        return "openai-chat"
    return None


def main():
    options = argparse.ArgumentParser(description="Say what a recorded provider stream holds.")
    options.add_argument("file", type=pathlib.Path)
    options.add_argument("--dialect", choices=("anthropic", "openai-chat"))
    options = options.parse_args()
    dialect = options.dialect or dialect_of(options.file)
    if dialect is None:
        print(f"{options.file}: neither folder nor name tell the dialect; give --dialect", file=sys.stderr)
        return 2
    try:
        raw = options.file.read_bytes()
    except OSError as error:
        print(f"{options.file}: cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    reader = Anthropic() if dialect == "anthropic" else OpenAiChat()
    print(json.dumps(reader.read(raw), indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

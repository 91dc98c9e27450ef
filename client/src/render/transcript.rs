//! A session as it is read: events and live text in, pieces of a transcript out. Pure.
//!
//! Invariants: text is shown once, whether it came as deltas, as a draft, or in the final event; a request
//! shows the whole of what is decided on; kinds this build does not know are skipped.
//! Deliberately absent: where the pieces go (that is [`super::out`]) and any answer to a request.

use super::lines::{self, Question};
use super::live::{LiveText, News};
use super::safe;
use super::style::{Ink, Style};
use super::words;
use agentd_proto::v1;
use agentd_proto::v1::event::Body;
use std::collections::BTreeMap;

/// A piece of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A whole line, without its end.
    Line(String),
    /// A part of the model's text; may hold line ends.
    Flow(String),
}

#[derive(Debug, Default)]
struct Call {
    tool: String,
    /// Some output was shown live.
    streamed: bool,
    /// Output of a line that has not ended yet.
    unfinished_line: String,
}

/// What was shown of a session, and how to show the rest.
#[derive(Debug)]
pub(crate) struct Transcript {
    style: Style,
    /// Our own process id: "you" among the origins.
    own_pid: u32,
    live: LiveText,
    calls: BTreeMap<String, Call>,
    /// The block whose text is flowing; a block that does not follow right after it begins on a new line.
    flowing: Option<(String, u32)>,
}

impl Transcript {
    /// An empty transcript.
    pub(crate) fn new(style: Style, own_pid: u32) -> Self {
        Self { style, own_pid, live: LiveText::default(), calls: BTreeMap::new(), flowing: None }
    }

    /// How it paints.
    pub(crate) const fn style(&self) -> Style {
        self.style
    }

    /// A piece of live text or a draft.
    pub(crate) fn delta(&mut self, delta: &v1::Delta) -> Vec<Piece> {
        let news = self.live.piece(delta);
        match delta.kind.as_str() {
            "text" => self.flow(&delta.source_id, delta.block, news),
            "output" => self.output(&delta.source_id, news),
            "waiting" => match news {
                News::More(text) => self.dim(&format!("  {}", safe::inline_cut(&text, self.style.room(2)))),
                _ => Vec::new(),
            },
            // Thinking is not shown live; it is in the log.
            _ => Vec::new(),
        }
    }

    /// The model's text that is open now.
    pub(crate) fn open_text(&self) -> String {
        self.live.open_text("text")
    }

    /// An event.
    pub(crate) fn event(&mut self, event: &v1::Event) -> Vec<Piece> {
        let Some(body) = &event.body else { return Vec::new() };
        let who = words::origin(event.origin.as_ref());
        match body {
            Body::Session(info) => self.session(&event.kind, info, &who),
            Body::Input(info) => self.input(&event.kind, info, &who, self.by_me(event)),
            Body::Turn(info) => self.turn(&event.kind, info, &who),
            Body::TurnEnd(end) => into_lines(lines::turn_end(self.style, end)),
            Body::Pause(pause) => self.pause(pause),
            Body::Answer(answer) => self.answer(answer),
            Body::ModelFailure(failure) => self.model_failure(event.at_ms, failure),
            Body::Call(call) => self.call(&event.kind, &event.call_id, call),
            Body::CallResult(result) => self.call_result(&event.call_id, result),
            Body::Request(info) => into_lines(lines::question(self.style, &Question::from(info))),
            Body::RequestEnd(end) => {
                vec![Piece::Line(lines::request_closed(self.style, end, &who, self.by_me(event)))]
            }
            Body::Files(files) => self.files(files),
            Body::Notice(notice) => {
                let room = self.style.room(22);
                let text = safe::inline_cut(&notice.text, room);
                self.dim(&format!("  told the model ({}): {text}", safe::inline(&notice.kind)))
            }
            Body::Recovery(info) => self.recovery(event, info),
            Body::ModelCall(_) | Body::Epoch(_) => Vec::new(),
        }
    }

    /// A request that was open before this transcript began.
    pub(crate) fn open_request(&self, request: &v1::OpenRequest) -> Vec<Piece> {
        into_lines(lines::question(self.style, &Question::from(request)))
    }

    fn by_me(&self, event: &v1::Event) -> bool {
        matches!(event.origin.as_ref().and_then(|origin| origin.kind.as_ref()),
            Some(v1::origin::Kind::Client(client)) if client.pid == self.own_pid)
    }

    fn dim(&self, line: &str) -> Vec<Piece> {
        vec![Piece::Line(self.style.paint(Ink::Dim, line))]
    }

    fn session(&self, kind: &str, info: &v1::SessionInfo, who: &str) -> Vec<Piece> {
        let mut facts = Vec::new();
        if !info.name.is_empty() {
            facts.push(format!("name {}", safe::inline(&info.name)));
        }
        if !info.model.is_empty() {
            facts.push(format!("model {}", safe::inline(&info.model)));
        }
        let mode = words::permission_mode(info.mode);
        if !mode.is_empty() {
            facts.push(format!("mode {mode}"));
        }
        if let Some(cwd) = &info.cwd {
            facts.push(format!("in {}", safe::inline(&cwd.path_display)));
        }
        let verb = if kind == "session_created" { "created" } else { "changed" };
        self.dim(&format!("# session {verb} by {who}: {}", facts.join(", ")))
    }

    fn input(&mut self, kind: &str, info: &v1::InputInfo, who: &str, by_me: bool) -> Vec<Piece> {
        match kind {
            "input_accepted" => {
                self.flowing = None;
                let whom = if by_me { String::new() } else { format!(" ({who})") };
                let steer = if info.steer { " (steering)" } else { "" };
                let shown = safe::text(&info.text);
                let mut out: Vec<Piece> = shown
                    .lines()
                    .map(|line| Piece::Line(self.style.paint(Ink::Cyan, &format!("> {line}"))))
                    .collect();
                if !whom.is_empty() || !steer.is_empty() {
                    out.extend(self.dim(&format!(" {steer}{whom}")));
                }
                out
            }
            "input_withdrawn" => self.dim(&format!("  an input was taken back by {who}")),
            _ => Vec::new(),
        }
    }

    fn turn(&self, kind: &str, info: &v1::TurnInfo, who: &str) -> Vec<Piece> {
        match kind {
            "turn_resumed" => {
                let again = if info.resume_count > 1 {
                    format!(" (resume {} without progress)", info.resume_count)
                } else {
                    String::new()
                };
                self.dim(&format!("  resumed by {who}{again}"))
            }
            "interrupt_requested" => self.dim(&format!("  {who} asked to stop")),
            _ => Vec::new(),
        }
    }

    fn pause(&self, pause: &v1::PauseInfo) -> Vec<Piece> {
        let line = format!("! waiting ({}): {}", safe::inline(&pause.reason), safe::inline(&pause.next));
        vec![Piece::Line(self.style.paint(Ink::Yellow, &line))]
    }

    fn answer(&mut self, answer: &v1::Answer) -> Vec<Piece> {
        let mut out = Vec::new();
        let id = &answer.model_call_id;
        let mut last: Option<(u32, u32)> = None;
        for (index, block) in (0_u32..).zip(&answer.blocks).filter(|(_, block)| block.kind == "text") {
            let after = last.map_or(index, |(shown, at)| shown.saturating_add(index - at));
            let shown = self.live.place_of(id, "text", index, &block.text).unwrap_or(after);
            last = Some((shown, index));
            let news = self.live.finish(id, "text", shown, &block.text);
            out.extend(self.flow(id, shown, news));
        }
        self.live.drop_source(&answer.model_call_id);
        if !answer.warnings.is_empty() && self.flowing.is_some() {
            out.push(Piece::Flow("\n".to_owned()));
        }
        self.flowing = None;
        for warning in &answer.warnings {
            let text = safe::inline_cut(warning, self.style.room(10).max(80));
            out.extend(self.dim(&format!("  (noted: {text})")));
        }
        out
    }

    fn model_failure(&mut self, at_ms: i64, failure: &v1::ModelFailure) -> Vec<Piece> {
        let had_shown = self.live.drop_source(&failure.model_call_id);
        self.flowing = None;
        let (line, ink) = lines::model_failure(self.style, at_ms, failure);
        let mut out = vec![Piece::Line(self.style.paint(ink, &line))];
        if had_shown {
            out.extend(self.dim("  the text above is not part of the conversation"));
        }
        out
    }

    fn call(&mut self, kind: &str, call_id: &str, call: &v1::CallInfo) -> Vec<Piece> {
        match kind {
            "call_requested" => {
                self.flowing = None;
                self.calls.insert(call_id.to_owned(), Call { tool: call.tool.clone(), ..Call::default() });
                vec![Piece::Line(lines::call_requested(self.style, call))]
            }
            "call_decided" if call.verdict == v1::Verdict::Deny as i32 => {
                let line = format!("  denied: {}", safe::inline(&call.reason));
                vec![Piece::Line(self.style.paint(Ink::Red, &line))]
            }
            "call_started" if call.attempt > 1 => self.dim(&format!("  attempt {}", call.attempt)),
            _ => Vec::new(),
        }
    }

    fn call_result(&mut self, call_id: &str, result: &v1::CallResult) -> Vec<Piece> {
        let call = self.calls.remove(call_id).unwrap_or_default();
        self.live.drop_source(call_id);
        let mut out = Vec::new();
        if !call.unfinished_line.is_empty() {
            out.push(Piece::Line(lines::output_line(self.style, &call.unfinished_line)));
        }
        let tool = if call.tool.is_empty() { "call" } else { &call.tool };
        // Output that was cut off from the live text (by a lag, by an attach in the middle) is in the result.
        let streamed = call.streamed && result.omitted_lines == 0;
        out.extend(into_lines(lines::call_result(self.style, tool, result, streamed)));
        out
    }

    fn files(&self, files: &v1::FilesInfo) -> Vec<Piece> {
        let names: Vec<String> =
            files.paths.iter().map(|p| safe::inline(&p.path_display).into_owned()).collect();
        self.dim(&format!("  changed: {}", names.join(", ")))
    }

    fn recovery(&self, event: &v1::Event, info: &v1::RecoveryInfo) -> Vec<Piece> {
        let line = if event.kind == "call_adopted" {
            let tool = self.calls.get(&event.call_id).map_or("a call", |call| call.tool.as_str());
            format!("! {} was still running and is followed again", safe::inline(tool))
        } else {
            let next =
                if info.next.is_empty() { String::new() } else { format!(": {}", safe::inline(&info.next)) };
            format!("! a new run of the daemon took over ({}){next}", safe::inline(&info.run_id))
        };
        vec![Piece::Line(self.style.paint(Ink::Yellow, &line))]
    }

    fn flow(&mut self, source: &str, block: u32, news: News) -> Vec<Piece> {
        let (text, again) = match news {
            News::None => return Vec::new(),
            News::More(text) => (text, false),
            News::Instead(text) => (text, true),
        };
        let mut out = Vec::new();
        let here = Some((source.to_owned(), block));
        if again {
            out.extend(self.dim("  (the text above was corrected)"));
        } else if self.flowing.as_ref().is_some_and(|(open, last)| {
            // Texts side by side are one text: each citation begins a new block.
            open != source || !(*last == block || last.checked_add(1) == Some(block))
        }) {
            out.push(Piece::Flow("\n".to_owned()));
        }
        self.flowing = here;
        out.push(Piece::Flow(safe::text(&text).into_owned()));
        out
    }

    fn output(&mut self, call_id: &str, news: News) -> Vec<Piece> {
        let style = self.style;
        let call = self.calls.entry(call_id.to_owned()).or_default();
        let mut out = Vec::new();
        let text = match news {
            News::None => return out,
            News::More(text) => text,
            News::Instead(text) => {
                call.unfinished_line.clear();
                out.push(Piece::Line(style.paint(Ink::Dim, "  (the output again, from its beginning)")));
                text
            }
        };
        call.streamed = true;
        call.unfinished_line.push_str(&text);
        while let Some(end) = call.unfinished_line.find('\n') {
            let line: String = call.unfinished_line.drain(..=end).collect();
            out.push(Piece::Line(lines::output_line(style, safe::text(&line).trim_end_matches('\n'))));
        }
        out
    }
}

fn into_lines(lines: Vec<String>) -> Vec<Piece> {
    lines.into_iter().map(Piece::Line).collect()
}

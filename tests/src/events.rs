//! A session's log as `events --json` gives it, read at once or followed.

use crate::cli::Running;
use crate::deadline::Deadline;
use serde_json::Value;

/// One event: the envelope as fields, the rest as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place in the log, from 1.
    pub seq: u64,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// What happened, in snake_case.
    pub kind: String,
    /// The turn it belongs to.
    pub turn_id: Option<String>,
    /// The call it is about.
    pub call_id: Option<String>,
    /// The whole line.
    pub json: Value,
}

impl Event {
    /// Reads a line. Lines without `seq` (deltas and other passing things) are no events.
    pub fn parse(line: &Value) -> Option<Self> {
        let word = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Self {
            seq: line["seq"].as_u64()?,
            at_ms: line["at_ms"].as_i64()?,
            kind: word("kind")?,
            turn_id: word("turn_id"),
            call_id: word("call_id").or_else(|| line["body"]["call_id"].as_str().map(str::to_owned)),
            json: line.clone(),
        })
    }

    /// A field of its body: under `body`, or beside the envelope when the body is laid flat.
    pub fn field(&self, name: &str) -> &Value {
        match &self.json["body"] {
            Value::Object(body) => body.get(name).unwrap_or(&Value::Null),
            _ => &self.json[name],
        }
    }

    /// A field that is text; empty when it is not there.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// Whether it is of this kind.
    pub fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }
}

/// The log as lines, for failure messages.
pub fn show(events: &[Event]) -> String {
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let body: String = event.json.to_string().chars().take(300).collect();
            format!("{:4} {:20} {body}", event.seq, event.kind)
        })
        .collect();
    lines.join("\n")
}

/// A running `events ID --follow --json`.
#[derive(Debug)]
pub struct Follower {
    running: Running,
}

impl Follower {
    pub(crate) fn new(running: Running) -> Self {
        Self { running }
    }

    /// All events so far.
    pub fn all(&self) -> Vec<Event> {
        parse_lines(&self.running.stdout.all())
    }

    /// Waits for the first event that `wanted` takes.
    #[track_caller]
    pub fn wait_for(&self, what: &str, deadline: Deadline, wanted: impl Fn(&Event) -> bool) -> Event {
        self.wait_for_nth(what, 1, deadline, wanted)
    }

    /// Waits for the `nth` event (from 1) that `wanted` takes.
    #[track_caller]
    pub fn wait_for_nth(
        &self,
        what: &str,
        nth: usize,
        deadline: Deadline,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        let found = self.running.stdout.wait(deadline, |lines| {
            parse_lines(lines).into_iter().filter(|event| wanted(event)).nth(nth - 1)
        });
        found.unwrap_or_else(|| {
            panic!(
                "{what}: not within {:?}. The log so far:\n{}\n{}",
                deadline.allowed(),
                show(&self.all()),
                self.running.stderr.all().join("\n")
            )
        })
    }

    /// Waits for the first event of a kind.
    #[track_caller]
    pub fn wait_for_kind(&self, kind: &str, deadline: Deadline) -> Event {
        self.wait_for(kind, deadline, |event| event.is(kind))
    }

    /// The process that follows.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }
}

/// The events among lines of NDJSON. A line that is no JSON is a defect of the stream.
pub fn parse_lines(lines: &[String]) -> Vec<Event> {
    lines
        .iter()
        .filter_map(|line| {
            let value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("not a line of NDJSON ({error}): {line}"));
            Event::parse(&value)
        })
        .collect()
}

/// Fails unless the events have consecutive numbers from `first`.
#[track_caller]
pub fn assert_no_holes(events: &[Event], first: u64) {
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let expected: Vec<u64> = (first..first + numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "sequence numbers of\n{}", show(events));
}

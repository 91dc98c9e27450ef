//! An answer as the bytes it becomes for one request.

use super::{Answer, Instead, Part, ToolUse, Usage};
use crate::scripted::delivery::{Delivery, Gate};
use crate::scripted::{Dialect, Quirk, Refusal, Rules, anthropic, openai};
use serde_json::Value;

/// Characters of text in one delta.
const TEXT_DELTA_CHARS: usize = 16;
/// Characters of arguments in one delta.
const ARGS_DELTA_CHARS: usize = 12;

/// Who asks: what an answer depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::scripted) struct Asked<'a> {
    pub(in crate::scripted) dialect: Dialect,
    pub(in crate::scripted) request: &'a Value,
    pub(in crate::scripted) rules: &'a Rules,
}

/// An answer ready to be sent.
#[derive(Clone, Debug)]
pub(in crate::scripted) struct Rendered {
    pub(in crate::scripted) status: u16,
    pub(in crate::scripted) headers: Vec<(String, String)>,
    pub(in crate::scripted) body: Vec<u8>,
    pub(in crate::scripted) delivery: Delivery,
    pub(in crate::scripted) hold: Option<Gate>,
    pub(in crate::scripted) dropped: bool,
}

impl Rendered {
    /// A body of JSON, sent plainly.
    pub(in crate::scripted) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.to_string().into_bytes(),
            delivery: Delivery::default(),
            hold: None,
            dropped: false,
        }
    }

    pub(in crate::scripted) fn refusal(refusal: &Refusal) -> Self {
        Self::json(refusal.status, &refusal.body())
    }
}

impl Answer {
    /// The body as it is sent to a client of Anthropic's dialect that asked nothing in particular.
    pub fn body(&self) -> Vec<u8> {
        self.body_in(Dialect::Anthropic)
    }

    /// The body as it is sent to a client of this dialect that asked nothing in particular.
    pub fn body_in(&self, dialect: Dialect) -> Vec<u8> {
        self.body_for(&Asked { dialect, request: &Value::Null, rules: &Rules::default() })
    }

    /// The body that answers this request.
    pub fn body_to(&self, dialect: Dialect, request: &Value, rules: &Rules) -> Vec<u8> {
        self.body_for(&Asked { dialect, request, rules })
    }

    pub(super) fn body_for(&self, asked: &Asked<'_>) -> Vec<u8> {
        if let Some((_, raw)) = self.raw.iter().find(|(dialect, _)| *dialect == asked.dialect) {
            return raw.clone();
        }
        let text = match &self.instead {
            Some(Instead::Bytes(bytes)) => return bytes.clone(),
            Some(Instead::Error { kind, message, code }) => {
                let body = match asked.dialect {
                    Dialect::Anthropic => anthropic::error_body(kind, message, code.as_deref(), self.number),
                    Dialect::OpenAi => openai::error_body(kind, message, code.as_deref()),
                };
                return body.to_string().into_bytes();
            }
            None => match asked.dialect {
                Dialect::Anthropic => anthropic::write(&self.content(), asked),
                Dialect::OpenAi => openai::write(&self.content(), asked),
            },
        };
        if self.crlf { text.replace('\n', "\r\n").into_bytes() } else { text.into_bytes() }
    }

    /// Everything about sending it. The error says what of the script does not fit the dialect.
    pub(in crate::scripted) fn render(&self, asked: &Asked<'_>) -> Result<Rendered, String> {
        let body = self.body_for(asked);
        let delivery = self.delivery_of(asked.dialect, &body)?;
        let status = match (asked.dialect, &self.instead, self.status) {
            // Overloaded is Anthropic's own number.
            (Dialect::OpenAi, Some(Instead::Error { .. }), 529) => 503,
            (_, _, status) => status,
        };
        Ok(Rendered {
            status,
            headers: self.headers_for(asked.dialect),
            body,
            delivery,
            hold: self.hold.clone(),
            dropped: self.dropped,
        })
    }

    fn headers_for(&self, dialect: Dialect) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let mut default = |name: &str, value: String| {
            if !self.bare && !self.headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), value));
            }
        };
        let stream = !matches!(self.instead, Some(Instead::Error { .. }));
        default(
            "content-type",
            if stream { "text/event-stream; charset=utf-8".into() } else { "application/json".into() },
        );
        match dialect {
            Dialect::Anthropic => {
                default("request-id", format!("req_scripted{:08}", self.number));
                if stream {
                    // The real API sends this on plain answers too; it means nothing there.
                    default("retry-after", "17".into());
                }
            }
            Dialect::OpenAi => {
                default("x-request-id", format!("req_scripted{:08}", self.number));
                default("openai-processing-ms", "17".into());
                default("x-ratelimit-reset-requests", "6m0s".into());
            }
        }
        headers.extend(self.headers.iter().cloned());
        headers
    }

    fn content(&self) -> Content<'_> {
        Content {
            number: self.number,
            parts: &self.parts,
            stop: self.stop.as_deref(),
            refused: self.refused.as_ref(),
            usage: self.usage,
            ends: self.ends,
            quirks: &self.quirks,
        }
    }
}

/// What a dialect writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::scripted) struct Content<'a> {
    pub(in crate::scripted) number: u64,
    pub(in crate::scripted) parts: &'a [Part],
    pub(in crate::scripted) stop: Option<&'a str>,
    /// Category and explanation.
    pub(in crate::scripted) refused: Option<&'a (String, String)>,
    pub(in crate::scripted) usage: Usage,
    pub(in crate::scripted) ends: bool,
    quirks: &'a std::collections::BTreeSet<Quirk>,
}

impl Content<'_> {
    pub(in crate::scripted) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    pub(in crate::scripted) fn calls(&self) -> impl Iterator<Item = &ToolUse> {
        self.parts.iter().filter_map(Part::as_call)
    }
}

/// Text in deltas.
pub(in crate::scripted) fn text_deltas(text: &str) -> Vec<String> {
    pieces(text, TEXT_DELTA_CHARS)
}

/// Arguments in deltas.
pub(in crate::scripted) fn args_deltas(args: &str) -> Vec<String> {
    pieces(args, ARGS_DELTA_CHARS)
}

fn pieces(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect()
}

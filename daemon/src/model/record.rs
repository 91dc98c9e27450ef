//! Requests to models and their answers as files, for who wants to see or replay what went over the wire.
//!
//! Each call of a recorded session leaves three files in the session's folder: `CALL.request.json` (address,
//! headers, body), `CALL.response` (the answer's bytes as they came, which is what a scripted server can send
//! again) and, once it is over, `CALL.response.json` (status, headers, how it ended).
//!
//! Invariants: a credential is in none of them, neither as a header nor anywhere else that the redactor finds it,
//! however the bytes were cut into chunks; files are for their user only; a session's files are bounded by
//! [`RECORD_MAX_BYTES`]; a disk that fails costs the record and never the call. Nobody waits for the disk: a thread
//! of the call writes, and ends with it.
//!
//! Deliberately absent: whether a session is recorded (its settings), and reading records back.

use super::provider::{Provider, is_secret_name};
use crate::redact::Redactor;
use agentd_core::ids::{ModelCallId, SessionId};
use agentd_core::limits::{RECORD_MAX_BYTES, THREAD_STACK_BYTES};
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

/// Stands for what is left out.
const REMOVED: &str = "[removed]";
/// The file that says that recording stopped.
const STOPPED: &str = "STOPPED.txt";
/// Files of one call that was sent again under its old id, as after a restart.
const SAME_ID_MAX: u32 = 100;

/// The place of all records.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// Records live below this folder, which is made when it is first needed.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the files of a session are.
    pub fn of_session(&self, session: &SessionId) -> PathBuf {
        self.folder.join(file_name(session.as_str()))
    }

    /// Begins the record of one model call. `redactor` knows the session's secrets; the provider's own are added.
    pub fn begin(
        &self,
        session: &SessionId,
        call: &ModelCallId,
        provider: &Provider,
        redactor: Arc<Redactor>,
    ) -> Recorder {
        let (say, said) = mpsc::channel();
        let writer = Writer {
            folder: self.of_session(session),
            call: file_name(call.as_str()),
            session: redactor,
            provider: of_provider(provider),
        };
        let thread = std::thread::Builder::new()
            .name("record".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || writer.run(&said));
        match thread {
            Ok(_) => Recorder { say: Some(say) },
            Err(error) => {
                tracing::warn!(%error, "a model call is not recorded");
                Recorder::off()
            }
        }
    }

    /// Deletes the files of a session, for when the session itself is deleted.
    pub fn remove(&self, session: &SessionId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.of_session(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// An id as the name of a file. Ids are letters, digits and `_` already; a path never comes out of one.
fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

fn of_provider(provider: &Provider) -> Redactor {
    let key = provider.key.iter().map(|key| (provider.name.as_str(), key.expose().as_bytes()));
    let headers = provider.headers.iter().filter(|(name, _)| is_secret_name(name));
    let headers = headers
        .map(|(name, value)| (name.as_str(), value.strip_prefix("Bearer ").unwrap_or(value).as_bytes()));
    Redactor::new(key.chain(headers))
}

/// The record of one call, while it runs. Every method returns at once; when recording is off they do nothing.
#[derive(Debug, Default)]
pub struct Recorder {
    say: Option<mpsc::Sender<Said>>,
}

#[derive(Debug)]
enum Said {
    Request { url: String, headers: Vec<(String, String)>, body: Bytes },
    Status { status: u16, headers: Vec<(String, String)> },
    Chunk(Bytes),
    End(String),
}

impl Recorder {
    /// Nothing is recorded.
    pub const fn off() -> Self {
        Self { say: None }
    }

    /// What is about to be sent.
    pub fn request(&self, url: &Url, headers: &HeaderMap, body: &Bytes) {
        self.say(|| Said::Request { url: plain_url(url), headers: plain(headers), body: body.clone() });
    }

    /// The head of the answer.
    pub fn status(&self, status: u16, headers: &HeaderMap) {
        self.say(|| Said::Status { status, headers: plain(headers) });
    }

    /// A piece of the answer's body, in order, as it came; a refusal's body too.
    pub fn chunk(&self, bytes: &Bytes) {
        self.say(|| Said::Chunk(bytes.clone()));
    }

    /// The call is over: `complete`, or why not. Without it the record says that the call was dropped.
    pub fn end(self, why: &str) {
        self.say(|| Said::End(why.to_owned()));
    }

    fn say(&self, what: impl FnOnce() -> Said) {
        if let Some(say) = &self.say {
            // The writer may have ended by its bound or a full disk; it has said so.
            let _ = say.send(what());
        }
    }
}

fn plain(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        let removed = value.is_sensitive() || is_secret_name(name.as_str());
        let text = if removed { REMOVED.into() } else { String::from_utf8_lossy(value.as_bytes()) };
        (name.as_str().to_owned(), text.into_owned())
    };
    headers.iter().map(shown).collect()
}

/// An address without user, password and the values of keys in its query.
fn plain_url(url: &Url) -> String {
    let mut plain = url.clone();
    // Both fail only for addresses that cannot have them.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    if url.query().is_some() {
        let shown = |(name, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
            let value = if is_secret_name(&name) || name.contains("sig") { REMOVED.into() } else { value };
            (name.into_owned(), value.into_owned())
        };
        let pairs: Vec<(String, String)> = url.query_pairs().map(shown).collect();
        plain.query_pairs_mut().clear().extend_pairs(pairs);
    }
    plain.into()
}

/// Writes the files of one call, on a thread of its own.
struct Writer {
    folder: PathBuf,
    call: String,
    session: Arc<Redactor>,
    provider: Redactor,
}

#[derive(serde::Serialize)]
struct RequestFile<'a> {
    method: &'static str,
    url: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<String>,
}

#[derive(serde::Serialize)]
struct ResponseFile {
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    end: String,
    bytes: u64,
    /// Bytes of the answer were left out, because the session's bound was reached.
    cut: bool,
    redacted: u32,
}

/// What may still be written for the session.
struct Room {
    left: u64,
    folder: PathBuf,
}

impl Room {
    /// Takes room for these bytes; false, and a note for people, when there is not so much.
    fn take(&mut self, bytes: usize) -> io::Result<bool> {
        match self.left.checked_sub(u64::try_from(bytes).unwrap_or(u64::MAX)) {
            Some(left) => {
                self.left = left;
                Ok(true)
            }
            None => {
                self.left = 0;
                let note = self.folder.join(STOPPED);
                if !note.exists() {
                    tracing::warn!(
                        folder = %self.folder.display(),
                        "a session is not recorded any further: its records have reached {RECORD_MAX_BYTES} bytes"
                    );
                    let text = format!(
                        "Recording stopped: the records of this session have reached {RECORD_MAX_BYTES} bytes.\n\
                         Delete files here to go on.\n"
                    );
                    private_file(&note)?.write_all(text.as_bytes())?;
                }
                Ok(false)
            }
        }
    }
}

impl Writer {
    fn run(self, said: &mpsc::Receiver<Said>) {
        if let Err(error) = self.write(said) {
            tracing::warn!(%error, folder = %self.folder.display(), "a model call could not be recorded");
        }
    }

    fn write(&self, said: &mpsc::Receiver<Said>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut room =
            Room { left: RECORD_MAX_BYTES.saturating_sub(used(&self.folder)?), folder: self.folder.clone() };
        let Some((base, mut response)) = self.begin_files()? else { return Ok(()) };
        let (mut first, mut second) = (self.session.stream(), self.provider.stream());
        let mut file = ResponseFile {
            status: None,
            headers: BTreeMap::new(),
            end: "the call was dropped before it was over".to_owned(),
            bytes: 0,
            cut: false,
            redacted: 0,
        };
        let mut put = |bytes: &[u8], file: &mut ResponseFile, room: &mut Room| -> io::Result<()> {
            if !bytes.is_empty() && !file.cut {
                file.cut = !room.take(bytes.len())?;
            }
            if file.cut {
                return Ok(());
            }
            file.bytes += u64::try_from(bytes.len()).unwrap_or(0);
            response.write_all(bytes)
        };
        while let Ok(said) = said.recv() {
            match said {
                Said::Request { url, headers, body } => {
                    let text = self.request_text(&url, headers, &body)?;
                    if room.take(text.len())? {
                        write_whole(&base.with_extension("request.json"), &text)?;
                    }
                }
                Said::Status { status, headers } => {
                    file.status = Some(status);
                    file.headers = self.headers(headers);
                }
                Said::Chunk(bytes) => put(&second.push(&first.push(&bytes)), &mut file, &mut room)?,
                Said::End(why) => {
                    file.end = self.redact(&why);
                    break;
                }
            }
        }
        let last = first.finish();
        let mut rest = second.push(&last.content);
        let end = second.finish();
        rest.extend(end.content);
        put(&rest, &mut file, &mut room)?;
        file.redacted = last.count + end.count;
        write_whole(&base.with_extension("response.json"), &json(&file)?)
    }

    /// The beginning of the files' names and the open file of the answer. None when the id was used too often.
    fn begin_files(&self) -> io::Result<Option<(PathBuf, File)>> {
        for number in 1..=SAME_ID_MAX {
            let name = if number == 1 { self.call.clone() } else { format!("{}-{number}", self.call) };
            let base = self.folder.join(name);
            match private_file(&base.with_extension("response")) {
                Ok(file) => return Ok(Some((base, file))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn redact(&self, text: &str) -> String {
        self.provider.redact(&self.session.redact(text).content).content
    }

    fn headers(&self, headers: Vec<(String, String)>) -> BTreeMap<String, String> {
        headers.into_iter().map(|(name, value)| (name, self.redact(&value))).collect()
    }

    fn request_text(&self, url: &str, headers: Vec<(String, String)>, body: &[u8]) -> io::Result<Vec<u8>> {
        let body = self.provider.redact_bytes(&self.session.redact_bytes(body).content).content;
        // As it was sent, to the byte, where it is JSON; a mark that broke it leaves it a text.
        let raw: Option<&RawValue> = serde_json::from_slice(&body).ok();
        json(&RequestFile {
            method: "POST",
            url: self.redact(url),
            headers: self.headers(headers),
            body: raw,
            body_text: raw.is_none().then(|| String::from_utf8_lossy(&body).into_owned()),
        })
    }
}

fn json(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Bytes of all files of the folder.
fn used(folder: &Path) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() != STOPPED {
            sum = sum.saturating_add(entry.metadata().map_or(0, |metadata| metadata.len()));
        }
    }
    Ok(sum)
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Nobody sees half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    private_file(&part)?.write_all(bytes)?;
    std::fs::rename(part, path)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;

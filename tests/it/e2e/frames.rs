//! A daemon seen frame by frame: it runs for a fraction of a millisecond, is stopped, and its state on disk is read.
//!
//! This is how a `kill -9` is aimed between two events that lie a millisecond apart. Only the daemon is stopped;
//! supervisors and their commands go on in real time, as they would beside a slow daemon.

use agent_tests::deadline::Deadline;
use agent_tests::home::TestHome;
use agent_tests::process;
use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the daemon runs between two frames while things happen.
const SHORT: Duration = Duration::from_micros(120);
/// How long at most, while nothing happens.
const LONG: Duration = Duration::from_millis(4);
/// The files of a job folder that are steps of its supervisor.
const STEPS: [&str; 4] = ["spec", "id", "out", "result"];

/// A stored event: sequence number, kind, body.
pub(super) type Stored = (u64, String, String);

/// What is on disk at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Events of the session.
    pub(super) events: usize,
    /// The last one with its number among its kind, and the files of the job folders.
    pub(super) label: String,
}

/// The camera on one session.
pub(super) struct Frames {
    log: Connection,
    session: String,
    jobs: PathBuf,
}

const LOG: &str = "SELECT e.seq, e.kind, e.body FROM events e JOIN sessions s USING (session_no) \
                   WHERE s.session_id = ?1 ORDER BY e.seq";

fn stored(log: &Connection, session: &str) -> rusqlite::Result<Vec<Stored>> {
    let mut query = log.prepare_cached(LOG)?;
    let rows = query.query_map([session], |row| {
        Ok((u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default(), row.get(1)?, row.get(2)?))
    })?;
    rows.collect()
}

impl Frames {
    pub(super) fn new(home: &TestHome, session: &str) -> Self {
        let path = home.agentd().join("data/agentd.db");
        let log = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        log.busy_timeout(Duration::ZERO).unwrap();
        Self { log, session: session.to_owned(), jobs: home.jobs() }
    }

    /// What is on disk now; none when the daemon was stopped in the middle of publishing a commit.
    fn look(&self) -> Option<Frame> {
        let events = stored(&self.log, &self.session).ok()?;
        let last = events.last().map_or("nothing", |(_, kind, _)| kind.as_str());
        let nth = events.iter().filter(|(_, kind, _)| kind == last).count();
        let files = job_files(&self.jobs);
        Some(Frame { events: events.len(), label: format!("{last}#{nth} {files}") })
    }

    /// Runs the daemon frame by frame and kills it in the first frame that `wanted` takes. Every new frame goes to
    /// `seen`. Returns the frame of the kill; none when the turn ended first.
    pub(super) fn kill_when(
        &self,
        pid: u32,
        deadline: Deadline,
        mut seen: impl FnMut(&Frame),
        mut wanted: impl FnMut(&Frame) -> bool,
    ) -> Option<Frame> {
        let (mut last, mut quantum) = (None, SHORT);
        loop {
            assert!(
                !deadline.passed(),
                "the turn did not end within {:?}; last frame {last:?}",
                deadline.allowed()
            );
            process::signal(pid, Signal::CONT);
            spin(quantum);
            process::signal(pid, Signal::STOP);
            while process::describe(pid).is_some_and(|found| !matches!(found.state, 'T' | 't' | 'Z')) {
                std::hint::spin_loop();
            }
            let Some(frame) = self.look() else { continue };
            if last.as_ref() == Some(&frame) {
                quantum = (quantum * 2).min(LONG);
                continue;
            }
            quantum = SHORT;
            seen(&frame);
            if wanted(&frame) {
                process::signal(pid, Signal::KILL);
                assert!(process::wait_exit(pid, Deadline::secs(10)), "{pid} survived SIGKILL");
                return Some(frame);
            }
            if frame.label.starts_with("turn_finished") {
                process::signal(pid, Signal::CONT);
                return None;
            }
            last = Some(frame);
        }
    }
}

/// Burns time: a sleep of a tenth of a millisecond is not to be had.
fn spin(quantum: Duration) {
    let until = Instant::now() + quantum;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The steps that are there in each job folder, as `[spec id out]`; folders in the order of their calls.
fn job_files(jobs: &Path) -> String {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(jobs).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let steps = |folder: &PathBuf| {
        let there: Vec<&str> = STEPS.into_iter().filter(|step| folder.join(step).exists()).collect();
        format!("[{}]", there.join(" "))
    };
    folders.iter().map(steps).collect()
}

/// The log of a session as a dead daemon left it, read from a copy: looking must not mend what is looked at.
pub(super) fn log_of_the_dead(home: &TestHome, session: &str) -> Vec<Stored> {
    let copy = tempfile::tempdir().unwrap();
    for name in ["agentd.db", "agentd.db-wal"] {
        let from = home.agentd().join("data").join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name)).unwrap();
        }
    }
    stored(&Connection::open(copy.path().join("agentd.db")).unwrap(), session).unwrap()
}

/// Where kills fell: by frame, in the order in which frames come.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    frames: BTreeMap<String, Row>,
}

/// Of one frame: events before it, times seen, kills, times aimed at.
type Row = (usize, u32, u32, u32);

impl Histogram {
    pub(super) fn seen(&mut self, frame: &Frame) {
        let row = self.frames.entry(frame.label.clone()).or_insert((frame.events, 0, 0, 0));
        row.1 += 1;
    }

    pub(super) fn killed(&mut self, frame: &Frame) {
        self.frames.entry(frame.label.clone()).or_insert((frame.events, 0, 0, 0)).2 += 1;
    }

    /// Kills that fell on this frame so far.
    pub(super) fn kills(&self, frame: &Frame) -> u32 {
        self.frames.get(&frame.label).map_or(0, |row| row.2)
    }

    /// The frame that needs a kill most, after `runs`: fewest kills, then fewest failed aims. Frames that are often
    /// there and lack kills come first, so that rare ones do not draw all aims. The end of the turn is no target.
    pub(super) fn aim(&mut self, wanted: u32, runs: u32) -> Frame {
        let lacking = |row: &Row| is_often(row, runs) && row.2 < wanted;
        let any_lacks = self.frames.iter().any(|(label, row)| !is_end(label) && lacking(row));
        let candidates =
            self.frames.iter_mut().filter(|(label, row)| !is_end(label) && (!any_lacks || lacking(row)));
        let (label, row) =
            candidates.min_by_key(|(_, row)| (row.2 + row.3 / 4, row.3, row.0)).expect("a first run");
        row.3 += 1;
        Frame { events: row.0, label: label.clone() }
    }

    /// Frames that are often there and have fewer than `wanted` kills.
    pub(super) fn thin(&self, wanted: u32, runs: u32) -> Vec<String> {
        self.frames
            .iter()
            .filter(|(label, row)| is_often(row, runs) && row.2 < wanted && !is_end(label))
            .map(|(label, row)| format!("{label}: {} kills, seen {} times", row.2, row.1))
            .collect()
    }
}

/// Whether a frame was seen in at least a third of the runs.
fn is_often(row: &Row, runs: u32) -> bool {
    row.1 * 3 >= runs
}

fn is_end(label: &str) -> bool {
    label.starts_with("turn_finished")
}

impl std::fmt::Display for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rows: Vec<_> = self.frames.iter().collect();
        rows.sort_by_key(|(_, row)| row.0);
        writeln!(f, "{:>6} {:>5} {:>5}  last event, job files", "events", "seen", "kills")?;
        for (label, (events, seen, kills, _)) in rows {
            writeln!(f, "{events:>6} {seen:>5} {kills:>5}  {label}")?;
        }
        Ok(())
    }
}

//! `agentctl daemon …`: the life of the daemon.

use super::{GlobalArgs, print_json, print_line};
use crate::connect::{Connection, connect, connect_if_running, fresh_request_id, stub};
use crate::error::{ClientError, ErrorKind};
use agentd_proto::place::{DaemonStart, Place};
use agentd_proto::v1::{HelloResponse, StopMode, StopRequest};
use serde_json::{Value, json};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a daemon may take to end once it agreed to end at once.
const STOP_WAIT: Duration = Duration::from_secs(15);
/// How long to wait for running steps before the command says that they still run.
const DRAIN_WAIT: Duration = Duration::from_secs(3_600);
/// How often a followed log is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// Bytes of a log that are looked at for its last lines.
const TAIL_BYTES: u64 = 256 * 1024;

/// Arguments of `daemon`.
#[derive(Debug, clap::Args)]
pub struct DaemonArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Be the daemon, in the foreground
    Run {
        /// Leave the terminal and report readiness on stdout (for clients that start a daemon)
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Start it if none runs; returns when it answers
    Start,
    /// Stop it; refused while it is at work unless you say how
    Stop(StopArgs),
    /// Stop it and start this version
    Restart(StopArgs),
    /// What runs, and where
    Status,
    /// The end of its log
    Logs {
        /// How many lines
        #[arg(short = 'n', long, default_value_t = 50)]
        lines: usize,
        /// Go on as it grows
        #[arg(short, long)]
        follow: bool,
    },
}

#[derive(Clone, Copy, Debug, clap::Args)]
#[group(multiple = false)]
struct StopArgs {
    /// At once; running commands go on and are taken over by the next daemon
    #[arg(long)]
    now: bool,
    /// Take no new input and end when the running steps have ended
    #[arg(long)]
    drain: bool,
    /// Only if nothing is at work (the default)
    #[arg(long)]
    when_idle: bool,
}

impl StopArgs {
    const fn mode(self) -> StopMode {
        match (self.now, self.drain) {
            (true, _) => StopMode::Now,
            (_, true) => StopMode::Drain,
            _ => StopMode::WhenIdle,
        }
    }
}

impl DaemonArgs {
    /// How to start, when this process is to be the daemon.
    pub(super) fn role(&self, global: &GlobalArgs) -> Option<DaemonStart> {
        match self.what {
            What::Run { detached } => Some(DaemonStart { home: global.home.clone(), detached }),
            _ => None,
        }
    }
}

/// Runs it.
pub(super) async fn run(args: DaemonArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    match args.what {
        // `main` plays that role before it comes to this.
        What::Run { .. } => Err(ClientError::failed("`daemon run` is a role of its own")),
        What::Start => show(&connect(global).await?, global),
        What::Status => status(global).await,
        What::Stop(how) => stop(how.mode(), global).await,
        What::Restart(how) => {
            stop_running(how.mode(), global).await?;
            show(&connect(global).await?, global)
        }
        What::Logs { lines, follow } => logs(lines, follow, global).await,
    }
}

async fn status(global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    if let Some(connection) = connect_if_running(global).await? {
        return show(&connection, global);
    }
    let place = Place::of_client(global.home.as_deref())?;
    if global.json {
        print_json(&json!({
            "running": false, "pid": null, "version": null, "protocol": null,
            "socket": place.socket.display().to_string(), "home": place.home_display().display().to_string(),
            "sessions": 0, "jobs": 0, "started_at": null,
        }))?;
    } else {
        print_line(&format!("no daemon runs for {}", place.home_display().display()))?;
    }
    Ok(ExitCode::from(ErrorKind::Unreachable.exit_code()))
}

fn show(connection: &Connection, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let hello = &connection.hello;
    if global.json {
        print_json(&describe(hello))?;
    } else {
        print_line(&format!(
            "daemon {} (pid {}), protocol {}",
            hello.version, hello.pid, hello.protocol_max
        ))?;
        print_line(&format!("  home      {}", hello.home))?;
        print_line(&format!("  socket    {}", hello.socket))?;
        print_line(&format!("  run       {} since {}", hello.run_id, utc(hello.started_at_ms)))?;
        print_line(&format!("  at work   {} sessions, {} jobs", hello.busy_sessions, hello.busy_jobs))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(hello: &HelloResponse) -> Value {
    json!({
        "running": true,
        "pid": hello.pid,
        "version": hello.version,
        "build": hello.build,
        "protocol": hello.protocol_max,
        "protocol_min": hello.protocol_min,
        "socket": hello.socket,
        "home": hello.home,
        "sessions": hello.busy_sessions,
        "jobs": hello.busy_jobs,
        "started_at": utc(hello.started_at_ms),
        "started_at_ms": hello.started_at_ms,
        "run_id": hello.run_id,
        "daemon_id": hello.daemon_id,
    })
}

async fn stop(mode: StopMode, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let stopped = stop_running(mode, global).await?;
    if global.json {
        print_json(&json!({
            "stopped": stopped.is_some(),
            "pid": stopped.as_ref().map(|hello| hello.pid),
            "run_id": stopped.as_ref().map(|hello| hello.run_id.as_str()),
        }))?;
    } else {
        print_line(&match stopped {
            Some(hello) => format!("stopped (pid {})", hello.pid),
            None => "no daemon runs".to_owned(),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the daemon that runs, of whatever version, and waits until its process has ended. None when none runs.
async fn stop_running(mode: StopMode, global: &GlobalArgs) -> Result<Option<HelloResponse>, ClientError> {
    let Some(connection) = connect_if_running(global).await? else { return Ok(None) };
    let hello = connection.hello;
    // Opened before the daemon can end, so that it cannot mean a later process of the same number.
    let process = process_of(hello.pid)?;
    let request = StopRequest {
        request_id: fresh_request_id()?,
        mode: mode.into(),
        expected_run_id: hello.run_id.clone(),
    };
    match stub::daemon(connection.channel).stop(request).await {
        Ok(_) => {}
        Err(status) => {
            let error = ClientError::from(status);
            // It may have ended between its agreement and its answer; the process says so.
            if !error.is_lost_connection() {
                return Err(error);
            }
        }
    }
    let limit = if mode == StopMode::Drain { DRAIN_WAIT } else { STOP_WAIT };
    let ended = match process {
        Some(process) => has_ended(process, limit).await?,
        None => true,
    };
    if ended {
        return Ok(Some(hello));
    }
    Err(ClientError::failed(format!(
        "the daemon (pid {}) agreed to stop but still runs after {} s",
        hello.pid,
        limit.as_secs()
    ))
    .hint(format!("its log: {}", connection.place.logs_dir().display())))
}

/// A handle on a process that becomes readable when it ends; none when it has ended.
fn process_of(pid: u32) -> Result<Option<OwnedFd>, ClientError> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}

/// Waits for the end of a process.
async fn has_ended(process: OwnedFd, limit: Duration) -> Result<bool, ClientError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let deadline = Instant::now() + limit;
    let wait = move || loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            polled => return polled.map(|ready| ready > 0),
        }
    };
    let ended = tokio::task::spawn_blocking(wait)
        .await
        .map_err(|source| ClientError::failed("waiting for the daemon's end failed").because(source))?;
    Ok(ended.map_err(std::io::Error::from)?)
}

async fn logs(lines: usize, follow: bool, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let place = Place::of_client(global.home.as_deref())?;
    let folder = place.logs_dir();
    let Some(mut path) = newest_log(&folder)? else {
        return Err(ClientError::failed(format!("there is no log in {}", folder.display()))
            .hint("agentctl daemon start"));
    };
    let (text, mut offset) = read_from(&path, None)?;
    let all: Vec<&str> = text.lines().collect();
    for line in &all[all.len().saturating_sub(lines)..] {
        print_line(line)?;
    }
    if !follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        let (text, end) = read_from(&path, Some(offset))?;
        offset = end;
        text.lines().try_for_each(print_line)?;
        if let Some(newer) = newest_log(&folder)?.filter(|newer| *newer != path) {
            (path, offset) = (newer, 0);
        }
    }
}

/// The log file that was begun last; their names carry the day.
fn newest_log(folder: &Path) -> Result<Option<PathBuf>, ClientError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agentd.")))
        .max())
}

/// Whole lines of a file from `offset`, or of its end, and where they stop.
fn read_from(path: &Path, offset: Option<u64>) -> Result<(String, u64), ClientError> {
    let mut file = std::fs::File::open(path)?;
    let len = file.metadata()?.len();
    let start = offset.unwrap_or_else(|| len.saturating_sub(TAIL_BYTES));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(whole);
    let end = start + u64::try_from(whole).unwrap_or(0);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), end))
}

/// A time as RFC 3339 in UTC, whole seconds.
fn utc(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant's days-to-civil: the year begins in March, so that leap days come last.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(utc(1_796_040_959_999), "2026-11-30T12:15:59Z");
    }

    #[test]
    fn a_log_is_read_in_whole_lines_and_goes_on_where_it_stopped() {
        let temp = tempfile::tempdir().unwrap();
        let old = temp.path().join("agentd.2026-01-01.log");
        let new = temp.path().join("agentd.2026-01-02.log");
        std::fs::write(&old, "old\n").unwrap();
        std::fs::write(&new, "one\ntwo\nthr").unwrap();
        std::fs::write(temp.path().join("other"), "x").unwrap();
        assert_eq!(newest_log(temp.path()).unwrap(), Some(new.clone()));
        let (text, end) = read_from(&new, None).unwrap();
        assert_eq!((text.as_str(), end), ("one\ntwo\n", 8));
        std::fs::write(&new, "one\ntwo\nthree\n").unwrap();
        assert_eq!(read_from(&new, Some(end)).unwrap().0, "three\n");
        assert_eq!(newest_log(&temp.path().join("none")).unwrap(), None);
    }
}

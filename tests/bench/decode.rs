//! What it costs to understand a stream: the decoder alone, and the daemon with a terminal that watches.

use crate::binary;
use crate::figures::{head, median, row, spread};
use agent_tests::deadline::Deadline;
use agent_tests::home::TestHome;
use agent_tests::process::wait_exit;
use agent_tests::scripted::{Answer, Cut, Gate, ScriptedModel};
use agentd_core::event::Dialect;
use agentd_core::model::ids::IdRule;
use agentd_core::model::reader::AnswerReader;
use std::hint::black_box;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Deltas a second of a fast model.
const DELTAS_PER_SECOND: u32 = 500;
/// Bytes of one read from a socket: a usual segment.
const READ_BYTES: usize = 1_448;
/// Deltas of the stream that is decoded.
const DELTAS: usize = 20_000;
/// How long the daemon is watched.
const STREAM_SECS: u64 = 4;

/// A few characters, as models stream them, with what has to be escaped.
fn words(at: usize) -> String {
    ["the ", "quick \\\"brown\\\" ", "fox\\n", "日本 ", "jumps "][at % 5].to_owned()
}

/// A stream of many small deltas.
fn stream(dialect: Dialect) -> String {
    let mut text = String::new();
    match dialect {
        Dialect::Anthropic => {
            text.push_str("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n");
            text.push_str("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
            (0..DELTAS).for_each(|at| text.push_str(&delta(dialect, at)));
            text.push_str(
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            );
            text.push_str("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n");
            text.push_str("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        }
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            (0..DELTAS).for_each(|at| text.push_str(&delta(dialect, at)));
            text.push_str("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
        }
    }
    text
}

fn delta(dialect: Dialect, at: usize) -> String {
    let words = words(at);
    match dialect {
        Dialect::Anthropic => format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{words}\"}}}}\n\n"
        ),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => format!(
            "data: {{\"id\":\"chatcmpl-Bx1\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{words}\"}},\"finish_reason\":null}}]}}\n\n"
        ),
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Decodes a stream once, in pieces as they come from a socket; the CPU time that took.
fn decode(dialect: Dialect, stream: &[u8]) -> Duration {
    let begun = cpu();
    let mut reader = AnswerReader::new(dialect);
    let mut shown = 0;
    let mut watch = |delta: agentd_core::model::live::LiveDelta| shown += delta.text.len();
    for piece in stream.chunks(READ_BYTES) {
        reader.push(piece, &mut watch).expect("the stream is sound");
    }
    let decoded = reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut watch).expect("it is whole");
    let took = cpu() - begun;
    assert_eq!(black_box(decoded).blocks[0].text.as_ref().map(String::len), Some(shown));
    took
}

/// The share of a core that the daemon used while a model streamed to it, with one terminal that follows.
fn daemon_share() -> f64 {
    let gate = Gate::new();
    let text = delta(Dialect::Anthropic, 0);
    let every = Duration::from_secs(1) / DELTAS_PER_SECOND;
    let babble = Cut::Babble { text, every, gate: gate.clone() };
    // The message and its first block have begun.
    let model = ScriptedModel::with([Answer::saying("done").cut_after_events(2, babble)]);
    let home = TestHome::with_model(binary(), &model);
    let session = home.new_session(["--permission-mode", "ask"]);
    let pid = home.daemon_pid();
    let mut watcher = home.command(home.binary());
    watcher.args(["attach", &session, "--json", "--read-only"]).stdout(Stdio::null()).stdin(Stdio::null());
    let mut watcher = watcher.spawn().expect("a client can start");
    home.send(&session, "talk");
    model.wait_for_requests(1, Deadline::secs(10));
    let (before, begun) = (ticks(pid), Instant::now());
    assert!(!wait_exit(pid, Deadline::secs(STREAM_SECS)), "the daemon has ended");
    let (after, took) = (ticks(pid), begun.elapsed());
    gate.open();
    home.wait_for_turn_end(&session, 1, Deadline::secs(20));
    let _ = watcher.kill();
    let _ = watcher.wait();
    drop(home);
    let per_second = rustix::param::clock_ticks_per_second();
    (after - before) as f64 / per_second as f64 / took.as_secs_f64()
}

/// User and system time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon runs");
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace().collect()).unwrap_or_default();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// Measures both dialects `runs` times by turns, and the daemon as often.
pub(crate) fn measure(runs: usize) {
    println!("decoding, {runs} runs of {DELTAS} deltas in reads of {READ_BYTES} bytes\n");
    head(&["dialect", "stream MB", "CPU ms a MB", "CPU µs a delta", "% of a core at 500 deltas/s"]);
    for (name, dialect) in [("anthropic", Dialect::Anthropic), ("openai-chat", Dialect::OpenAiChat)] {
        let stream = stream(dialect);
        let took: Vec<f64> =
            (0..runs.max(1)).map(|_| decode(dialect, stream.as_bytes()).as_secs_f64()).collect();
        let megabytes = stream.len() as f64 / 1e6;
        let each = |factor: f64| spread(&took.iter().map(|took| took * factor).collect::<Vec<_>>());
        row(&[
            name.to_owned(),
            format!("{megabytes:.1}"),
            each(1e3 / megabytes),
            each(1e6 / DELTAS as f64),
            each(100.0 * f64::from(DELTAS_PER_SECOND) / DELTAS as f64),
        ]);
        assert!(median(&took) * 1e3 / megabytes < 50.0, "more than 50 ms of CPU a MB");
    }
    let shares: Vec<f64> = (0..runs.min(3)).map(|_| 100.0 * daemon_share()).collect();
    println!(
        "\nthe daemon at {DELTAS_PER_SECOND} deltas/s with one terminal that follows: {} % of a core\n",
        spread(&shares)
    );
}

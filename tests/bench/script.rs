//! The same work for both sides: N calls one after another, each for another small file.

use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Received, ScriptedModel};
use serde_json::json;

/// Bytes of one file; as in the comparison with other programs.
const FILE_BYTES: usize = 460;
/// What the model says when all calls are done.
pub(crate) const DONE: &str = "all read";

/// The tool that each step calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// `read_file` of `fK.txt`.
    ReadFile,
    /// `run_command` with `cat fK.txt`.
    RunCommand,
}

impl Tool {
    /// Its name on the bench's command line.
    pub(crate) fn part(self) -> &'static str {
        match self {
            Self::ReadFile => "read",
            Self::RunCommand => "command",
        }
    }

    /// Its name in the model's calls.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::RunCommand => "run_command",
        }
    }

    fn call(self, step: usize) -> Answer {
        let args = match self {
            Self::ReadFile => json!({"path": file_name(step)}),
            Self::RunCommand => json!({"command": command_line(step)}),
        };
        Answer::calling(&format!("toolu_step{step:04}"), self.name(), args)
    }
}

/// The file of a step.
pub(crate) fn file_name(step: usize) -> String {
    format!("f{step}.txt")
}

/// The command of a step.
pub(crate) fn command_line(step: usize) -> String {
    format!("cat {}", file_name(step))
}

/// What the file of a step holds: lines that no other file has.
pub(crate) fn file_text(step: usize) -> String {
    let mut text = String::new();
    while text.len() < FILE_BYTES {
        text.push_str(&format!("file {step} line {:02} of the measured workspace\n", text.len()));
    }
    text
}

/// Puts the files of all steps into a workspace.
pub(crate) fn write_files(home: &TestHome, steps: usize) {
    for step in 0..steps {
        home.write(&file_name(step), file_text(step));
    }
}

/// A server that asks for `steps` calls, then ends.
pub(crate) fn server(tool: Tool, steps: usize) -> ScriptedModel {
    let model = ScriptedModel::start();
    model.respond_with(move |request: &Received| match request.tool_use_ids().len() {
        step if step < steps => tool.call(step),
        _ => Answer::saying(DONE),
    });
    model
}

/// Fails unless these are the requests of one whole run, each step's result being what its file holds.
pub(crate) fn check(requests: &[Received], steps: usize) {
    assert_eq!(requests.len(), steps + 1, "requests of a run of {steps} steps");
    let results = requests.last().expect("there are requests").tool_results();
    assert_eq!(results.len(), steps, "results in the last request");
    for (step, result) in results.iter().enumerate() {
        let line = file_text(step).lines().next().unwrap_or_default().to_owned();
        assert!(!result.is_error && result.text.contains(&line), "the result of step {step}: {result:?}");
    }
}

/// Milliseconds of each step: from the last byte of an answer to the last byte of the next request.
pub(crate) fn step_ms(requests: &[Received]) -> Vec<f64> {
    let pairs = requests.windows(2);
    let step = |pair: &[Received]| {
        let answered = pair[0].times.answered.expect("an answer with a call was sent to its end");
        (pair[1].times.last_byte - answered).as_secs_f64() * 1e3
    };
    pairs.map(step).collect()
}

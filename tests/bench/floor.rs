//! The floor: the least that a program can do for the same steps, written as plainly as it can be.
//!
//! It replays the very requests that a run of ours had sent, so both sides move the same bytes over the same kind of
//! connection to the same server. In between it does the tool's work and makes one record of it durable. It knows
//! no policy, no log, no history and no client.

use crate::script::{Tool, command_line, file_name, file_text};
use agent_tests::home::TestHome;
use agent_tests::scripted::{Received, ScriptedModel};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Bytes of the record that a step leaves behind.
const RECORD_BYTES: usize = 500;

/// Does the steps of `sent` against `model`, in the workspace of `home`, with its log on the same disk.
pub(crate) fn run(tool: Tool, home: &TestHome, model: &ScriptedModel, sent: &[Received]) {
    let mut stream = TcpStream::connect(model.address()).expect("the server listens");
    stream.set_nodelay(true).expect("a socket takes the option");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket can be shared"));
    let mut log = log(home);
    for (step, request) in sent.iter().enumerate() {
        if step > 0 {
            let step = step - 1;
            let output = work(tool, home, step);
            assert_eq!(output, file_text(step).into_bytes(), "what step {step} read");
            let mut record = output;
            record.resize(RECORD_BYTES, b' ');
            log.write_all(&record).and_then(|()| log.sync_data()).expect("a record can be written");
        }
        stream.write_all(&bytes(request)).expect("the server reads");
        read_answer(&mut answers);
    }
}

fn log(home: &TestHome) -> File {
    let path = home.agentd().join("floor.log");
    OpenOptions::new().create(true).append(true).open(path).expect("a log can be made")
}

fn work(tool: Tool, home: &TestHome, step: usize) -> Vec<u8> {
    match tool {
        Tool::ReadFile => {
            std::fs::read(home.workspace().join(file_name(step))).expect("the step's file can be read")
        }
        Tool::RunCommand => {
            let mut shell = home.command("/bin/bash");
            shell.args(["--norc", "--noprofile", "-c", &command_line(step)]).stdin(Stdio::null());
            let output = shell.output().expect("the shell runs");
            assert!(output.status.success(), "step {step}: {output:?}");
            output.stdout
        }
    }
}

/// A request as ours had sent it.
fn bytes(request: &Received) -> Vec<u8> {
    let mut bytes = format!("{} HTTP/1.1\r\n", request.line()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(request.body());
    bytes
}

/// Reads one chunked answer to its end.
fn read_answer(answers: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    answers.read_line(&mut line).expect("the server answers");
    assert!(line.starts_with("HTTP/1.1 200"), "the server refused: {line}");
    while line != "\r\n" {
        line.clear();
        answers.read_line(&mut line).expect("the head of an answer");
    }
    let mut chunk = Vec::new();
    loop {
        line.clear();
        answers.read_line(&mut line).expect("the size of a chunk");
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk has a size");
        chunk.resize(size + 2, 0);
        answers.read_exact(&mut chunk).expect("a whole chunk");
        if size == 0 {
            return;
        }
    }
}

//! What a daemon holds when nothing is to be done.

use crate::figures::{head, row, spread};
use crate::script::{Tool, server, write_files};
use crate::{binary, steps};
use agent_tests::deadline::Deadline;
use agent_tests::home::TestHome;
use agent_tests::process::wait_exit;

/// How long nothing happens before the look.
const IDLE_SECS: u64 = 3;

/// Looks at `runs` fresh daemons, each before and after a run of `steps` steps of either tool.
pub(crate) fn measure(runs: usize, steps: usize) {
    let (mut fresh, mut after) = (Looks::default(), Looks::default());
    for _ in 0..runs {
        let first = server(Tool::ReadFile, steps);
        let mut home = TestHome::with_model(binary(), &first);
        write_files(&home, steps);
        home.start_daemon();
        let pid = home.daemon_pid();
        fresh.look(pid);
        for tool in [Tool::ReadFile, Tool::RunCommand] {
            steps::ours(tool, &mut home, steps);
        }
        after.look(pid);
        // Before its server, which the daemon may still hold connections to.
        drop(home);
    }
    println!("the daemon after {IDLE_SECS} s without work, {runs} daemons\n");
    head(&["", "RssAnon MB", "RssFile MB", "threads", "descriptors"]);
    fresh.print("after its start");
    after.print(&format!("after a turn of {steps} `read_file` and one of {steps} `run_command`"));
    println!();
}

#[derive(Default)]
struct Looks {
    anon_mb: Vec<f64>,
    file_mb: Vec<f64>,
    threads: Vec<f64>,
    descriptors: Vec<f64>,
}

impl Looks {
    fn look(&mut self, pid: u32) {
        assert!(!wait_exit(pid, Deadline::secs(IDLE_SECS)), "the daemon has ended");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
        let field = |name: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_ascii_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in:\n{status}"))
        };
        self.anon_mb.push(field("RssAnon:") * 1024.0 / 1e6);
        self.file_mb.push(field("RssFile:") * 1024.0 / 1e6);
        self.threads.push(field("Threads:"));
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the daemon is ours").count();
        self.descriptors.push(f64::from(u32::try_from(descriptors).expect("few descriptors")));
    }

    fn print(&self, name: &str) {
        let columns = [&self.anon_mb, &self.file_mb, &self.threads, &self.descriptors];
        let cells = columns.map(|values| spread(values));
        row(&[vec![name.to_owned()], cells.to_vec()].concat());
    }
}

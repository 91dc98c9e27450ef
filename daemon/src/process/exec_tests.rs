//! What one supervisor does with one command.

use super::test_support::{Bench, exited, until};
use super::{JobEnd, procfs};
use std::time::{Duration, Instant};

#[tokio::test]
async fn exit_code_output_and_counts_are_those_of_the_command() {
    let bench = Bench::new();
    let (result, output) =
        bench.run("code", "echo out; sleep 0.02; echo err >&2; sleep 0.02; printf end; exit 3").await;
    assert_eq!(result.end, exited(3));
    assert_eq!(output, b"out\n[stderr]\nerr\n[stdout]\nend");
    assert_eq!((result.total_bytes, result.total_lines), (29, 5));
    assert_eq!((result.stderr_end.as_str(), result.ends_in_stderr), ("err\n", false));
    assert!(!result.timed_out && !result.stopped);
    assert_eq!((result.leftover_killed, result.left_alive, result.spool_error), (0, 0, None));
    assert!(result.sandbox_layers.is_empty(), "no sandbox holds, and that is what is said");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_are() {
    let bench = Bench::new();
    let (result, output) = bench.run("raw", r"printf 'ok\xff\xfe\x00\033[31mred\033[0m\n'; exit 3").await;
    assert_eq!(result.end, exited(3));
    assert_eq!(output, b"ok\xff\xfe\x00\x1b[31mred\x1b[0m\n");
}

#[tokio::test]
async fn a_command_may_itself_be_no_text() {
    let bench = Bench::new();
    let mut spec = bench.spec("");
    spec.command = b"printf %s '\xff\xfe'".to_vec();
    spec.env.push((b"ODD".to_vec(), b"\xff".to_vec()));
    let (result, output) = bench.run_spec("odd", &spec).await;
    assert_eq!((result.end, &output[..]), (exited(0), &b"\xff\xfe"[..]));
}

#[tokio::test]
async fn death_by_a_signal_is_not_an_exit() {
    let bench = Bench::new();
    let (result, _) = bench.run("segv", "kill -SEGV $$").await;
    assert_eq!(result.end, JobEnd::Signaled { signal: libc::SIGSEGV });
}

#[tokio::test]
async fn the_child_gets_a_clean_start() {
    let bench = Bench::new();
    let script = "env | sort; echo fds: /proc/$$/fd/*; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
                  readlink /proc/$$/fd/0; [ -t 1 ] || echo no terminal; echo sid $(ps -o sid= -p $$) pid $$";
    let (_, output) = bench.run("clean", script).await;
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("/jobs/clean\n"), "{text}");
    let foreign = text.lines().take_while(|line| line.contains('=')).filter(|line| {
        !["AGENTD_JOB=", "PATH=", "PWD=", "SHLVL=", "_="].iter().any(|known| line.starts_with(known))
    });
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&str>::new());
    // 3 is the folder itself, open while bash lists it.
    let fds = text.lines().find(|line| line.starts_with("fds: ")).unwrap();
    assert!(
        fds.split(' ').all(|fd| ["fds:", "0", "1", "2", "3"].contains(&fd.rsplit('/').next().unwrap())),
        "{fds}"
    );
    assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"), "{text}");
    assert!(text.contains("/dev/null\nno terminal\n"), "{text}");
    let words: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words[1], words[3], "it leads its own session");
}

#[tokio::test]
async fn what_cannot_start_says_what_where_and_why() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo never");
    spec.cwd = "/no/such/folder".into();
    let (result, output) = bench.run_spec("nowhere", &spec).await;
    let JobEnd::Refused { why } = result.end else { panic!("{result:?}") };
    assert!(why.contains("/no/such/folder") && why.contains("No such file"), "{why}");
    assert_eq!(output, b"");

    let long = format!("echo {}", "x".repeat(200_000));
    let (result, _) = bench.run("long", &long).await;
    let JobEnd::Refused { why } = result.end else { panic!("{result:?}") };
    assert!(why.contains("too long"), "{why}");
}

#[tokio::test]
async fn a_flood_is_bounded_and_both_ends_are_kept() {
    let bench = Bench::new();
    let mut spec = bench.spec("echo first; head -c 200000000 /dev/zero | tr '\\0' '\\n'; echo last");
    spec.spool_max_bytes = 8 * 1024 * 1024;
    let begun = Instant::now();
    let (result, output) = bench.run_spec("flood", &spec).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(result.end, exited(0));
    assert_eq!((result.total_bytes, result.total_lines), (200_000_011, 200_000_002));
    assert!(output.starts_with(b"first\n") && output.ends_with(b"\nlast\n"));
    let disk: u64 =
        std::fs::read_dir(bench.folder("flood")).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(disk <= spec.spool_max_bytes + 4096, "{disk}");
    let view = bench.jobs.spool("flood").unwrap().read_head_tail(3, 2, 1000).unwrap();
    assert_eq!((&view.head[..], &view.tail[..]), (&b"first\n\n\n"[..], &b"\nlast\n"[..]));
    assert_eq!((view.total_bytes, view.total_lines), (result.total_bytes, result.total_lines));
    assert_eq!(view.omitted_lines, 200_000_002 - 5);
}

#[tokio::test]
async fn background_children_neither_hold_the_call_nor_outlive_it() {
    let bench = Bench::new();
    let cases = [
        ("plain", "sleep 300 & echo done", 1),
        ("silent", "sleep 300 >/dev/null 2>&1 & echo done", 1),
        ("chatty", "(while :; do echo x; done) & echo done", 1),
        ("session", "setsid sleep 300 & sleep 0.2; echo done", 1),
        ("double", "(setsid sh -c 'sleep 300 & sleep 300 & exit' &) ; sleep 0.2; echo done", 2),
        ("deaf", "(trap '' TERM HUP; setsid sleep 300 & wait) & sleep 0.2; echo done", 2),
    ];
    for (name, command, at_least) in cases {
        let begun = Instant::now();
        let (result, output) = bench.run(name, command).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{name}: {:?}", begun.elapsed());
        assert_eq!(result.end, exited(0), "{name}");
        assert!(String::from_utf8_lossy(&output).contains("done\n"), "{name}");
        assert!(result.leftover_killed >= at_least, "{name}: {result:?}");
        assert_eq!(result.left_alive, 0, "{name}");
        assert_eq!(bench.alive(name), Vec::<u32>::new(), "{name}");
    }
}

#[tokio::test]
async fn output_on_its_way_through_a_filter_is_not_lost() {
    let bench = Bench::new();
    let (result, output) = bench.run("filter", "echo hello > >(sleep 0.05; cat)").await;
    assert_eq!((result.end, &output[..]), (exited(0), &b"hello\n"[..]));
}

#[tokio::test]
async fn a_deadline_ends_the_whole_tree_even_if_it_is_deaf() {
    let bench = Bench::new();
    let mut spec = bench.spec(
        "echo begun; trap '' TERM; (trap '' TERM; sleep 3; touch late) & (setsid sh -c 'sleep 3; touch late' &); sleep 60",
    );
    (spec.timeout_ms, spec.grace_ms) = (700, 300);
    let begun = Instant::now();
    let (result, output) = bench.run_spec("deadline", &spec).await;
    assert!(result.timed_out && !result.stopped);
    assert_eq!(result.end, JobEnd::Signaled { signal: libc::SIGKILL });
    assert!((1000..2500).contains(&result.duration_ms), "{result:?}");
    assert!(result.leftover_killed >= 2, "{result:?}");
    assert_eq!(output, b"begun\n");
    assert_eq!(bench.alive("deadline"), Vec::<u32>::new());
    // Nobody is left who could make the file: that is stronger than waiting for its time.
    assert!(!bench.home.path().join("late").exists());
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_command_that_obeys_ends_within_its_grace() {
    let bench = Bench::new();
    let mut spec = bench.spec("trap 'echo tidy; exit 7' TERM; echo begun; sleep 60 & wait");
    (spec.timeout_ms, spec.grace_ms) = (400, 10_000);
    let (result, output) = bench.run_spec("obey", &spec).await;
    assert!(result.timed_out && result.duration_ms < 5_000, "{result:?}");
    assert_eq!((result.end, &output[..]), (exited(7), &b"begun\ntidy\n"[..]));
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_command() {
    let bench = Bench::new();
    let bomb = "f() { for i in 1 2; do (sleep 0.01; [ $1 -gt 0 ] && f $(($1 - 1))) & done; wait; }; f 8 & sleep 0.3; echo done";
    let (result, _) = bench.run("bomb", bomb).await;
    assert_eq!((result.end, result.left_alive), (exited(0), 0));
    assert_eq!(bench.alive("bomb"), Vec::<u32>::new());
}

#[tokio::test]
async fn a_full_disk_does_not_lose_the_exit_code() {
    // No small file system without root: a limit on file size stops the spool as a full disk would.
    let bench = Bench::new();
    let folder = bench.folder("full");
    std::fs::create_dir(&folder).unwrap();
    let mut spool = super::spool_writer::SpoolWriter::create(&folder, 100);
    std::fs::remove_dir_all(&folder).unwrap();
    spool.push(&[b'x'; 50]);
    spool.push(b"in the tail\n");
    assert_eq!((spool.total_bytes(), spool.total_lines()), (62, 1));
    let error = spool.error().unwrap();
    assert!(error.contains("beyond byte 50") && error.contains("full"), "{error}");
    spool.push(b"more");
    assert_eq!((spool.total_bytes(), spool.total_lines()), (66, 2));
}

#[tokio::test]
async fn the_room_for_the_result_is_taken_before_the_command_runs() {
    let bench = Bench::new();
    let command = "stat -c %b $AGENTD_JOB/result.new; yes | head -c 100000 > /dev/null; exit 3";
    let (result, output) = bench.run("room", command).await;
    assert_eq!(result.end, exited(3));
    let blocks: u64 = String::from_utf8(output).unwrap().trim().parse().unwrap();
    assert!(blocks * 512 >= 4096, "{blocks} blocks");
    assert!(!bench.folder("room").join("result.new").exists());
    let written = std::fs::read(bench.folder("room").join("result")).unwrap();
    assert_eq!((written[0], *written.last().unwrap()), (b'{', b'}'), "nothing but the record");

    // What a command does to it costs the room, not the result, and writes to nothing else.
    for (name, tamper) in [
        ("link", "ln -sf $AGENTD_JOB/../../victim $AGENTD_JOB/result.new"),
        ("gone", "rm $AGENTD_JOB/result.new"),
        ("fifo", "rm $AGENTD_JOB/result.new; mkfifo $AGENTD_JOB/result.new"),
    ] {
        assert_eq!(bench.run(name, &format!("{tamper}; exit 6")).await.0.end, exited(6), "{name}");
        assert!(bench.folder(name).join("result").symlink_metadata().unwrap().is_file());
    }
    assert!(!bench.home.path().join("victim").exists());
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_command_along() {
    let bench = Bench::new();
    bench.jobs.spawn("orphan", &bench.spec("echo begun; sleep 300")).unwrap();
    bench.printed("orphan", "begun").await;
    let supervisor = bench.jobs.supervisors().unwrap().remove(0);
    let leader = procfs::descendants(supervisor.pid).remove(0);
    rustix::process::kill_process(super::tree::pid(supervisor.pid).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    until("the command's end", || procfs::stat(leader.pid).is_none_or(|stat| stat.ended()));
}

#[tokio::test]
async fn a_command_that_is_all_shell_is_read_in_the_order_of_its_writes() {
    let numbers: Vec<String> = (1..=300).map(|at| at.to_string()).collect();
    let row = format!("for i in {}; do echo o$i; echo e$i >&2; done", numbers.join(" "));
    let wanted: String = (1..=300)
        .map(|at| format!("{}o{at}\n[stderr]\ne{at}\n", if at > 1 { "[stdout]\n" } else { "" }))
        .collect();
    for round in 0..10 {
        let bench = Bench::new();
        let (result, output) = bench.run(&format!("order-{round}"), &row).await;
        assert_eq!(result.end, exited(0));
        assert!(String::from_utf8(output).unwrap() == wanted, "round {round}: not in order");
    }
}

#[tokio::test]
async fn streams_that_take_turns_come_in_the_order_of_their_turns() {
    let row = "for i in $(seq 1 30); do echo o$i; sleep 0.01; echo e$i >&2; sleep 0.01; done";
    let wanted: String = (1..=30)
        .map(|at| format!("{}o{at}\n[stderr]\ne{at}\n", if at > 1 { "[stdout]\n" } else { "" }))
        .collect();
    let bench = Bench::new();
    let (result, output) = bench.run("turns", row).await;
    assert_eq!(result.end, exited(0));
    assert_eq!(String::from_utf8(output).unwrap(), wanted);
    assert!(result.ends_in_stderr);
}

#[tokio::test]
async fn whatever_the_order_no_line_of_either_stream_is_lost_or_torn() {
    let row =
        "for i in $(seq 1 3000); do echo o$i; echo e$i >&2; done; seq -f o%g 3001 60000; echo e3001 >&2";
    let bench = Bench::new();
    let (_, output) = bench.run("both", row).await;
    let text = String::from_utf8(output).unwrap();
    for (stream, count) in [('o', 60_000), ('e', 3_001)] {
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with(stream)).collect();
        let wanted: Vec<String> = (1..=count).map(|at| format!("{stream}{at}")).collect();
        assert!(found == wanted, "{stream}: {} lines of {count}", found.len());
    }
    assert!(text.lines().all(|line| line.starts_with(['o', 'e', '['])), "a line was torn");
    assert!(text.ends_with("[stderr]\ne3001\n"), "the last word came last");
}

/// Programs that make their output non-blocking (Node does) give up what does not fit at once.
#[tokio::test]
async fn a_program_that_does_not_wait_for_its_output_loses_nothing_that_fits_a_pipe() {
    let row = "import fcntl, os\nfor fd in (1, 2): os.set_blocking(fd, False)\n\
               for at in range(1500): os.write(1, b'out %d\\n' % at); os.write(2, b'err %d\\n' % at)\n";
    let bench = Bench::new();
    let (result, output) = bench.run("eager", &format!("python3 -c \"{row}\"")).await;
    assert_eq!(result.end, exited(0), "{}", String::from_utf8_lossy(&output));
    let text = String::from_utf8(output).unwrap();
    for stream in ["out", "err"] {
        assert_eq!(text.lines().filter(|line| line.starts_with(stream)).count(), 1_500);
    }
}

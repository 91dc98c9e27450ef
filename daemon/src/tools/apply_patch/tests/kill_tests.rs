//! Kills in the middle of a patch: stops between any two changes of a folder, and real ones.

use super::*;
use agentd_core::ids::CallId;
use proptest::prelude::*;

fn killed_patch() -> String {
    envelope(
        "*** Update File: a\n@@\n-one\n+1\n*** Update File: run.sh\n*** Move to: bin/run\n@@\n-two\n+2\n*** Add File: new/x\n+x\n\
         *** Delete File: gone\n*** Update File: dir/c\n@@\n-three\n+3\n",
    )
}

async fn killed_bench() -> Bench {
    let mut bench = Bench::new();
    chmod(&bench.put("a", "one\n"), 0o600);
    chmod(&bench.put("run.sh", "two\n"), 0o755);
    bench.put("gone", "bye\n");
    bench.put("dir/c", "three\n");
    bench.read("gone").await;
    bench
}

/// Stops a call at the question `at`; whether it was stopped.
pub(super) async fn killed(bench: &Bench, ctx: &CallContext, at: usize) -> bool {
    let mut asked = 0;
    let end = make(&bench.tools, ctx, &bench.redactor, move || {
        asked += 1;
        asked > at
    })
    .await
    .unwrap();
    end.outcome != CallOutcome::Ok
}

#[tokio::test]
async fn after_a_kill_the_files_are_all_old_or_all_new() {
    let mut points = 0;
    let whole = {
        let bench = killed_bench().await;
        let ctx = bench.patch_call(&killed_patch()).await;
        assert_eq!(bench.tools.run(&ctx, &bench.redactor).await.outcome, CallOutcome::Ok);
        bench.tree()
    };
    for with_blobs_only in [false, true] {
        for at in 0.. {
            let bench = killed_bench().await;
            let mut old = bench.tree();
            let ctx = bench.patch_call(&killed_patch()).await;
            if !killed(&bench, &ctx, at).await {
                break;
            }
            points += 1;
            if with_blobs_only {
                // As on a file system that cannot exchange: what was displaced is gone.
                for number in 0..6 {
                    for folder in ["", "bin/", "new/", "dir/"] {
                        let _ = std::fs::remove_file(
                            bench.at(&format!("{folder}{}", commit::temp_name_of(&ctx.call_id, number))),
                        );
                    }
                }
            }
            let evidence = bench.tools.evidence(&ctx).await;
            let mut now = bench.tree();
            match evidence {
                Evidence::NotStarted { .. } => {
                    // Folders of new files are needed again.
                    for folder in ["bin", "new"] {
                        assert!(now.remove(folder).is_none_or(|(_, content)| content.is_none()));
                        old.remove(folder);
                    }
                    assert_eq!(now, old, "stopped at {at}");
                    let end = bench.tools.run(&ctx, &bench.redactor).await;
                    assert_eq!(end.outcome, CallOutcome::Ok, "stopped at {at}: {}", end.text);
                }
                Evidence::Finished { .. } => {
                    let end = bench.tools.finished(&ctx).await;
                    assert_eq!((end.outcome, end.files.len()), (CallOutcome::Ok, 6), "{}", end.text);
                    assert_eq!(end.files[1].after_mode, Some(0o755));
                }
                other => panic!("stopped at {at}: {other:?}"),
            }
            assert_eq!(bench.tree(), whole, "stopped at {at}");
        }
    }
    assert!(points >= 2 * 17, "{points}");
}

#[tokio::test]
async fn a_half_done_patch_is_not_undone_over_what_somebody_else_wrote() {
    for (name, theirs) in [("a", true), ("dir/c", true), ("new/x", true), ("gone", true), ("a", false)] {
        let bench = killed_bench().await;
        let ctx = bench.patch_call(&killed_patch()).await;
        // All are staged, and three are in place.
        assert!(killed(&bench, &ctx, 9).await);
        if !theirs {
            // In the very moment of the exchange, so that theirs was displaced.
            let temp = bench.at(&commit::temp_name_of(&ctx.call_id, 0));
            std::fs::write(temp, "theirs\n").unwrap();
        } else {
            bench.put(name, "theirs\n");
        }
        let mut before = bench.tree();
        let Evidence::Unknown { why, .. } = bench.tools.evidence(&ctx).await else {
            panic!("guessed at {name}")
        };
        assert!(why.contains(name), "{why}");
        if theirs {
            // What the call had put beside the files is not left there for ever; the store has it.
            before.retain(|path, _| !path.contains(".agentd-"));
        }
        assert_eq!(bench.tree(), before);
    }
}

const FOLDER: &str = "AGENTD_TEST_KILL_PATCH_FOLDER";
const FILES: usize = 12;

/// What the files of the real kill hold, in turns.
fn content(version: usize) -> Vec<u8> {
    format!("{version}\n{}", "the same\n".repeat(5_000)).into_bytes()
}

/// The patch of a round: the files are at its number, modulo 2, and then at the other.
fn round_patch(round: usize) -> String {
    let (old, new) = (round % 2, (round + 1) % 2);
    let section = |file| format!("*** Update File: f{file}\n@@\n-{old}\n+{new}\n");
    envelope(&(0..FILES).map(section).collect::<String>())
}

fn all_are(bench: &Bench, version: usize) -> bool {
    (0..FILES).all(|file| bench.get(&format!("f{file}")) == content(version))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn write_until_killed(root: &Path) -> ! {
    use std::io::Write as _;
    let (mut bench, runtime) = (Bench::new(), runtime());
    (bench.root, bench.cwd) = (path_bytes(root), path_bytes(root));
    let mut stdout = std::io::stdout().lock();
    let mut round = 0;
    loop {
        let mut ctx = runtime.block_on(bench.patch_call(&round_patch(round)));
        ctx.call_id = CallId::new("c_1");
        writeln!(stdout, "round {round}").unwrap();
        assert_eq!(runtime.block_on(bench.tools.run(&ctx, &bench.redactor)).outcome, CallOutcome::Ok);
        round += 1;
    }
}

/// Starts a writer, kills it within a call, and says in which round.
fn kill_writer(folder: &Path, kill: u32, share: u32) -> usize {
    use std::io::{BufRead as _, BufReader};
    use std::time::Instant;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tools::apply_patch::tests::kill_tests::a_real_kill_leaves_nothing_half_done",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut rounds = lines
        .filter_map(|line| line.split_once("round ").map(|(_, number)| number.parse::<usize>().unwrap()));
    rounds.next().unwrap();
    let begun = Instant::now();
    let last = rounds.nth(usize::try_from(kill % 2).unwrap()).unwrap();
    let whole = begun.elapsed() / (1 + kill % 2);
    let begun = Instant::now();
    while begun.elapsed() < whole * share / 1_000 {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let last = rounds.last().unwrap_or(last);
    child.wait().unwrap();
    last
}

/// Runs itself again as a writer of patches and kills it with SIGKILL, each time somewhere else.
#[test]
fn a_real_kill_leaves_nothing_half_done() {
    const KILLS: u32 = 24;
    if let Some(root) = std::env::var_os(FOLDER) {
        write_until_killed(Path::new(&root));
    }
    // The kills close in on the moment of the change from both sides.
    let (runtime, mut found, mut share) = (runtime(), BTreeMap::new(), 500);
    for kill in 0..KILLS {
        let bench = Bench::new();
        (0..FILES).for_each(|file| drop(bench.put(&format!("f{file}"), content(0))));
        let mut ctx = runtime.block_on(bench.patch_call(&round_patch(0)));
        ctx.call_id = CallId::new("c_1");
        let last = kill_writer(&bench.at("."), kill, share);
        if last % 2 == 1 {
            ctx.args = bench.call("apply_patch", &json!({ "patch": round_patch(1) })).args;
            if let Some(Binding::Files(files)) = &mut ctx.binding {
                files.iter_mut().for_each(|file| std::mem::swap(&mut file.before, &mut file.after));
            }
        }
        let word = match runtime.block_on(bench.tools.evidence(&ctx)) {
            Evidence::NotStarted { why } => {
                assert!(all_are(&bench, last % 2), "kill {kill}");
                let end = runtime.block_on(bench.tools.run(&ctx, &bench.redactor));
                assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
                if why.contains("as before again") { "undone" } else { "not begun" }
            }
            Evidence::Finished { .. } => "done",
            other => panic!("{other:?}"),
        };
        *found.entry(word).or_insert(0) += 1;
        share = if word == "not begun" { (share * 5 / 4).min(20_000) } else { share * 4 / 5 };
        assert!(all_are(&bench, (last + 1) % 2), "kill {kill}");
        assert_eq!(bench.names().len(), FILES, "{:?}", bench.names());
    }
    assert!(found.len() > 1, "all kills were alike: {found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random trees that become other trees, killed anywhere.
    #[test]
    fn a_drawn_tree_becomes_the_other(files in proptest::collection::btree_map("[a-c]{1,2}(/[d-f])?", (0..4_u8, proptest::collection::vec("[x-z]{1,3}", 1..6), any::<prop::sample::Index>()), 1..6), stop in 0..40_usize) {
        let runtime = runtime();
        let mut bench = Bench::new();
        // A name is a file or a folder, not both.
        let is_folder = |name: &str| files.keys().any(|other| other.starts_with(&format!("{name}/")));
        let (mut patch, mut wanted) = (String::from("*** Begin Patch\n"), BTreeMap::new());
        for (name, (kind, lines, index)) in &files {
            if is_folder(name) { continue }
            let content = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let (changed, at) = { let mut new = lines.clone(); let at = index.index(new.len()); new[at] = "new".to_owned(); (new, at) };
            let hunk = || lines.iter().enumerate().map(|(line, text)| if line == at { format!("-{text}\n+new\n") } else { format!(" {text}\n") }).collect::<String>();
            match kind {
                0 => { patch.push_str(&format!("*** Add File: {name}\n{}", lines.iter().map(|line| format!("+{line}\n")).collect::<String>())); wanted.insert(name.clone(), content(lines)); }
                1 => { bench.put(name, content(lines)); runtime.block_on(bench.read(name)); patch.push_str(&format!("*** Delete File: {name}\n")); }
                2 => { bench.put(name, content(lines)); patch.push_str(&format!("*** Update File: {name}\n@@\n{}", hunk())); wanted.insert(name.clone(), content(&changed)); }
                _ => { bench.put(name, content(lines)); patch.push_str(&format!("*** Update File: {name}\n*** Move to: moved/{name}\n@@\n{}", hunk())); wanted.insert(format!("moved/{name}"), content(&changed)); }
            }
        }
        patch.push_str("*** End Patch\n");
        let only_files = |bench: &Bench| -> BTreeMap<String, String> {
            bench.tree().into_iter().filter_map(|(name, (_, content))| Some((name, String::from_utf8(content?).unwrap()))).collect()
        };
        let before = only_files(&bench);
        let ctx = runtime.block_on(bench.patch_call(&patch));
        if runtime.block_on(killed(&bench, &ctx, stop)) {
            match runtime.block_on(bench.tools.evidence(&ctx)) {
                Evidence::NotStarted { .. } => {
                    prop_assert_eq!(only_files(&bench), before);
                    let end = runtime.block_on(bench.tools.run(&ctx, &bench.redactor));
                    prop_assert_eq!(end.outcome, CallOutcome::Ok, "{}", end.text);
                }
                Evidence::Finished { .. } => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(only_files(&bench), wanted);
    }
}

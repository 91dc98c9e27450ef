//! kill -9 in the middle of appends: what was acknowledged is there.

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const DIR: &str = "AGENTD_TEST_STORE_CRASH_DIR";
const SESSIONS: u32 = 4;
const ROUNDS: usize = 3;
const ACKS_PER_ROUND: usize = 150;

#[test]
fn a_killed_process_loses_no_acknowledged_append() {
    if let Some(dir) = std::env::var_os(DIR) {
        append_for_ever(Path::new(&dir));
    }
    let dir = TempDir::new().unwrap();
    let mut acked: BTreeMap<u32, Seq> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::crash_tests::a_killed_process_loses_no_acknowledged_append"])
            .args(["--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut count = 0;
        // Everything that was printed was acknowledged, also what arrives after the kill.
        while let Some(Ok(line)) = lines.next() {
            let Some(ack) = line.strip_prefix("acked ") else { continue };
            let (n, seq) = ack.split_once(' ').unwrap();
            acked.insert(n.parse().unwrap(), seq.parse().unwrap());
            count += 1;
            if count == ACKS_PER_ROUND {
                child.kill().unwrap();
            }
        }
        assert!(count >= ACKS_PER_ROUND, "the child ended by itself after {count} appends");
        child.wait().unwrap();
        check(dir.path(), &acked);
    }
}

#[tokio::main]
async fn check(dir: &Path, acked: &BTreeMap<u32, Seq>) {
    let store = open(dir).unwrap();
    assert!(!store.was_closed_in_order());
    assert_eq!(acked.len(), SESSIONS as usize);
    for (n, acked) in acked {
        let last = store.last_seq(&session(*n)).await.unwrap().unwrap();
        assert!(last >= *acked, "session {n}: {acked} was acknowledged, {last} is there");
        let events = store.events_after(&session(*n), 0, usize::MAX).await.unwrap();
        assert_eq!(seqs(&events), (1..=last).collect::<Vec<_>>());
        assert_eq!(store.find_sessions(session(*n).as_str()).await.unwrap()[0].last_seq, last);
        let claim = store.first_answer(&format!("{n}-{acked}")).await.unwrap();
        assert!(claim.is_some(), "session {n}: the claim of event {acked} is gone");
    }
    assert_eq!(store.verify_audit().await.unwrap().first_bad, None);
    drop(store);
    assert_sound(&dir.join("agentd.db"));
    assert_sound(&dir.join("blobs.db"));
}

#[tokio::main]
async fn append_for_ever(dir: &Path) -> ! {
    let store = open(dir).unwrap();
    let store: &'static SqliteStore = Box::leak(Box::new(store));
    for n in 0..SESSIONS {
        tokio::spawn(async move {
            let id = session(n);
            let mut last = store.last_seq(&id).await.unwrap().unwrap_or(0);
            loop {
                let body = match last % 5 {
                    0 => input("a barrier"),
                    1 => finished(&"large".repeat(10_000 + usize::try_from(last).unwrap())),
                    _ => notice("lazy"),
                };
                let mut one = append(&id, last, vec![notice("with"), body]);
                last += 2;
                one.claim = Some(claim(&format!("{n}-{last}"), 1));
                one.audit = vec![audit(&id, "finished")];
                store.append(one).await.unwrap();
                println!("acked {n} {last}");
            }
        });
    }
    // Until it is killed. A task that fails ends no other: the parent then misses its acknowledgements.
    std::future::pending().await
}

//! No space, for real: a file size limit in a process of its own, and a small file system where we may mount.

use super::*;
use crate::ports::BlobSource;
use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::Command;

const DIR: &str = "AGENTD_TEST_STORE_LIMIT_DIR";
const NAME: &str = "store::tests::full_tests::a_file_size_limit_is_a_full_disk_that_ends";

/// Appends until there is no space; returns the last event that was written.
async fn fill(store: &SqliteStore, id: &SessionId) -> Seq {
    let mut last = 0;
    loop {
        let result = store.append(append(id, last, vec![input(&"x".repeat(20_000))])).await;
        if is_full(&result) {
            return last;
        }
        result.unwrap();
        last += 1;
        assert!(last < 10_000, "200 MB fit where they must not");
    }
}

async fn full_and_on(store: &SqliteStore, free: impl FnOnce()) {
    let id = session(1);
    let last = fill(store, &id).await;
    // Still no space, and still no harm.
    assert!(is_full(&store.append(append(&id, last, vec![input(&"x".repeat(20_000))])).await));
    assert_eq!(store.last_seq(&id).await.unwrap().unwrap_or(0), last);
    free();
    store.append(append(&id, last, vec![input(&"x".repeat(20_000))])).await.unwrap();
    store.put_blob(BlobSource::Bytes(Bytes::from(vec![1; 1_000_000]))).await.unwrap();
    assert_eq!(store.last_seq(&id).await.unwrap(), Some(last + 1));
    assert_eq!(store.events_after(&id, 0, usize::MAX).await.unwrap().len() as u64, last + 1);
}

#[test]
fn a_file_size_limit_is_a_full_disk_that_ends() {
    if let Some(dir) = std::env::var_os(DIR) {
        return under_a_limit(Path::new(&dir));
    }
    let dir = TempDir::new().unwrap();
    // The shell ignores the signal of the limit, which a process inherits; the limit is soft, so that it can end.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 8192; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("went on"), "{said}");
    assert_sound(&dir.path().join("agentd.db"));
    assert_sound(&dir.path().join("blobs.db"));
}

#[tokio::main]
async fn under_a_limit(dir: &Path) {
    let store = open(dir).unwrap();
    full_and_on(&store, || {
        let limit = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    })
    .await;
    store.close().await;
    println!("went on");
}

/// A file system of a few MiB that is gone at the end of its scope.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Result<Self, String> {
        let dir = TempDir::new().unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(dir.path()).output();
        match mount {
            Ok(output) if output.status.success() => Ok(Self(dir)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_full_file_system_pauses_and_goes_on_when_there_is_space() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        // The limit test above covers the same path of the store where nobody may mount.
        Err(why) => return println!("skipped: mounting a tmpfs needs root: {why}"),
    };
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![0; 3 * 1024 * 1024]).unwrap();
    let store = open(disk.0.path()).unwrap();
    full_and_on(&store, || std::fs::remove_file(&ballast).unwrap()).await;
    store.close().await;
    drop(store);
    assert_sound(&disk.0.path().join("agentd.db"));
}

//! A walk over a tree, from descriptor to descriptor.
//!
//! Invariants:
//! * every folder and file is opened by its name in an opened folder, never through a link and never by a path, so
//!   nothing outside the workspace is listed or read, whatever is renamed or swapped meanwhile;
//! * only folders and regular files are opened; the daemon's own folders and `.git` are not entered;
//! * what is found does not depend on the number of threads or their order ([`Kept`] puts it in order).
//!
//! Not the walker of the crate whose rules are used here: that one goes by paths and waits for a FIFO that has the name
//! of an ignore file. Deliberately absent: following links, and rules from outside the workspace.

mod glob;
mod ignores;
mod kept;
mod stop;

pub(super) use glob::Glob;
pub(super) use kept::Kept;
pub(super) use stop::Stop;

use crate::inspect::{self, Existing, OwnFolders, Workspace};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use ignores::{Ignores, RuleFiles};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a walk left out, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) ignored_files: u64,
    pub(super) ignored_folders: u64,
    pub(super) unreadable: u64,
    pub(super) other_mounts: u64,
    pub(super) own: u64,
    pub(super) too_deep: u64,
}

impl LeftOut {
    fn add(&mut self, other: Self) {
        self.ignored_files += other.ignored_files;
        self.ignored_folders += other.ignored_folders;
        self.unreadable += other.unreadable;
        self.other_mounts += other.other_mounts;
        self.own += other.own;
        self.too_deep += other.too_deep;
    }

    /// In words, each with its number.
    pub(super) fn in_words(self) -> Vec<String> {
        let mut words = Vec::new();
        let ignored = [counted(self.ignored_files, "file"), counted(self.ignored_folders, "folder")];
        let ignored: Vec<String> = ignored.into_iter().flatten().collect();
        if !ignored.is_empty() {
            words.push(format!("{} ignored by .gitignore or .ignore", ignored.join(" and ")));
        }
        let rows = [
            (self.unreadable, "could not be read"),
            (self.other_mounts, "on another mount"),
            (self.own, "of agentd's own folders"),
            (self.too_deep, "too deep"),
        ];
        words
            .extend(rows.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")));
        words
    }
}

/// `3 files`; nothing for none.
pub(super) fn counted(count: u64, what: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    }
}

/// `3 bytes`, `1 byte`, `0 bytes`
pub(super) fn amount(count: u64, what: &str) -> String {
    counted(count, what).unwrap_or_else(|| format!("0 {what}s"))
}

/// A folder that a walk has opened.
pub(super) struct Folder {
    /// For opening what is in it.
    pub(super) fd: OwnedFd,
    /// From the workspace's root; empty for the root itself.
    path: Vec<u8>,
    depth: usize,
    ignores: Option<Arc<Ignores>>,
    /// Of its regular files.
    inodes: Vec<u64>,
}

impl Folder {
    /// Whether it lies below a folder of packages, whose files are linked from a store.
    pub(super) fn is_in_modules(&self) -> bool {
        self.path.split(|byte| *byte == b'/').any(|part| part == b"node_modules")
    }

    /// How many of the names of a file are in this folder.
    pub(super) fn names_of(&self, inode: u64) -> usize {
        self.inodes.iter().filter(|found| **found == inode).count()
    }
}

/// An entry that was asked for.
pub(super) struct Entry<'a> {
    pub(super) folder: &'a Folder,
    pub(super) name: &'a CStr,
    pub(super) kind: FileType,
    /// From the place where the walk began.
    pub(super) path: &'a [u8],
}

/// Does something with entries; each thread has its own.
pub(super) trait Visitor: Send {
    /// Takes an entry that is neither ignored nor left out by the glob. Folders are given before they are entered.
    fn visit(&mut self, entry: &Entry<'_>);
}

/// A walk before it begins.
pub(super) struct Walk<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) own: &'a OwnFolders,
    pub(super) glob: Option<&'a Glob>,
    /// A glob has to match entries themselves, not a folder they lie in.
    pub(super) exact: bool,
    pub(super) stop: &'a Stop,
    pub(super) threads: usize,
    /// Bytes of a path from the root before the place where the walk began, and before the session's folder, if that is
    /// above it: a glob may count from either.
    start: usize,
    session: usize,
}

struct Item {
    name: CString,
    kind: FileType,
}

enum Job {
    Begin(Folder),
    Enter(Arc<Folder>, CString),
    Files(Arc<Folder>, Vec<Item>),
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    busy: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last job that came, so that few folders are open at a time; none when all is done.
    fn next(&self, stop: &Stop) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if stop.now() {
                state.jobs.clear();
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            let wait = Duration::from_millis(50);
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn done(&self, more: Vec<Job>) {
        let mut state = self.lock();
        state.jobs.extend(more);
        state.busy -= 1;
        drop(state);
        self.changed.notify_all();
    }
}

/// Threads for a walk on this machine.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(limits::WALK_THREADS_MAX)
}

impl<'a> Walk<'a> {
    /// A walk in a workspace.
    pub(super) fn new(workspace: &'a Workspace, own: &'a OwnFolders, stop: &'a Stop) -> Self {
        Self { workspace, own, glob: None, exact: false, stop, threads: threads(), start: 0, session: 0 }
    }

    /// Walks over what is below a folder. Gives the visitors back and what was left out.
    pub(super) fn run<V: Visitor>(
        mut self,
        from: &Existing,
        cwd: &PathBytes,
        visitor: impl Fn() -> V + Sync,
    ) -> rustix::io::Result<(Vec<V>, LeftOut)> {
        let root = self.workspace.path().as_bytes();
        let path = inspect::strip_folder(from.path.as_bytes(), root).unwrap_or_default().to_vec();
        let cwd = inspect::strip_folder(cwd.as_bytes(), root).unwrap_or_default();
        let skipped = |path: &[u8]| if path.is_empty() { 0 } else { path.len() + 1 };
        self.start = skipped(&path);
        let is_below_cwd = inspect::strip_folder(&path, cwd).is_some() || cwd.is_empty();
        self.session = if is_below_cwd { skipped(cwd) } else { self.start };
        let folder =
            Folder { fd: from.open()?, ignores: self.above(&path), path, depth: 0, inodes: Vec::new() };
        let queue = Queue::default();
        queue.lock().jobs.push(Job::Begin(folder));
        let walk = &self;
        let work = || {
            let mut worker =
                Worker { walk, visitor: visitor(), left_out: LeftOut::default(), path: Vec::new() };
            while let Some(job) = queue.next(walk.stop) {
                let more = worker.work(job);
                queue.done(more);
            }
            (worker.visitor, worker.left_out)
        };
        let mut ends = Vec::new();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads)
                .filter_map(|_| {
                    std::thread::Builder::new().name("walk".to_owned()).spawn_scoped(scope, work).ok()
                })
                .collect();
            ends.push(work());
            ends.extend(others.into_iter().filter_map(|other| other.join().ok()));
        });
        let mut left_out = LeftOut::default();
        let mut visitors = Vec::with_capacity(ends.len());
        for (visitor, other) in ends {
            left_out.add(other);
            visitors.push(visitor);
        }
        Ok((visitors, left_out))
    }

    /// The rules of the folders above `path`. None of them count if they ignore it: it was asked for.
    fn above(&self, path: &[u8]) -> Option<Arc<Ignores>> {
        let mut fd: Option<OwnedFd> = None;
        let mut ignores = None;
        let mut ends: Vec<usize> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
        if !path.is_empty() {
            ends.push(path.len());
        }
        let mut begin = 0_usize;
        for end in ends {
            let here = fd.as_ref().map_or_else(|| self.workspace.root(), OwnedFd::as_fd);
            let folder_path = &path[..begin.saturating_sub(1)];
            ignores = Ignores::of_folder(
                ignores.as_ref(),
                self.workspace,
                here,
                folder_path,
                RuleFiles::look(here),
            );
            if ignores.as_ref().is_some_and(|rules| rules.is_ignored(&path[..end], true)) {
                ignores = None;
            }
            let name = CString::new(&path[begin..end]).ok()?;
            fd = Some(self.workspace.open_entry(here, &name, true).ok()?);
            begin = end + 1;
        }
        ignores
    }

    fn globs<'p>(&self, path: &'p [u8]) -> [&'p [u8]; 2] {
        [path.get(self.start..).unwrap_or_default(), path.get(self.session..).unwrap_or_default()]
    }

    fn is_asked_for(&self, path: &[u8], is_folder: bool) -> bool {
        let Some(glob) = self.glob else { return true };
        let [first, second] = self.globs(path);
        let is_hit = |path: &[u8]| if self.exact { glob.matches(path, is_folder) } else { glob.covers(path) };
        // What is excluded by either way of counting is excluded.
        if glob.is_negated() { is_hit(first) && is_hit(second) } else { is_hit(first) || is_hit(second) }
    }

    fn is_named(&self, path: &[u8], is_folder: bool) -> bool {
        self.glob.is_some_and(|glob| self.globs(path).iter().any(|path| glob.names(path, is_folder)))
    }
}

struct Worker<'a, V> {
    walk: &'a Walk<'a>,
    visitor: V,
    left_out: LeftOut,
    /// Reused for each entry.
    path: Vec<u8>,
}

impl<V: Visitor> Worker<'_, V> {
    fn work(&mut self, job: Job) -> Vec<Job> {
        match job {
            Job::Begin(folder) => self.read(folder),
            Job::Enter(above, name) => match self.open(&above, &name) {
                Some(folder) => self.read(folder),
                None => Vec::new(),
            },
            Job::Files(folder, items) => {
                self.files(&folder, items);
                Vec::new()
            }
        }
    }

    fn open(&mut self, above: &Folder, name: &CStr) -> Option<Folder> {
        let path = self.path_of(above, name).to_vec();
        let real = inspect::join(self.walk.workspace.path().as_bytes(), &path);
        if self.walk.own.hold(real.as_bytes()) {
            self.left_out.own += 1;
            return None;
        }
        if above.depth >= limits::WALK_DEPTH_MAX {
            self.left_out.too_deep += 1;
            return None;
        }
        // What was asked for by name though it is ignored is not ruled from above.
        let is_ignored = above.ignores.as_ref().is_some_and(|rules| rules.is_ignored(&path, true));
        match self.walk.workspace.open_entry(above.fd.as_fd(), name, true) {
            Ok(fd) => Some(Folder {
                fd,
                path,
                depth: above.depth + 1,
                ignores: if is_ignored { None } else { above.ignores.clone() },
                inodes: Vec::new(),
            }),
            Err(Errno::XDEV) => {
                self.left_out.other_mounts += 1;
                None
            }
            // It went, or is something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(_) => {
                self.left_out.unreadable += 1;
                None
            }
        }
    }

    fn read(&mut self, mut folder: Folder) -> Vec<Job> {
        let Ok(dir) = Dir::read_from(&folder.fd) else {
            self.left_out.unreadable += 1;
            return Vec::new();
        };
        let (mut items, mut rules) = (Vec::new(), RuleFiles::default());
        for (count, entry) in dir.enumerate() {
            let Ok(entry) = entry else {
                self.left_out.unreadable += 1;
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(folder.fd.as_fd(), name),
                kind => kind,
            };
            rules.note(name.to_bytes(), kind);
            if name.to_bytes() == b".git" {
                continue;
            }
            if kind == FileType::RegularFile {
                folder.inodes.push(entry.ino());
            }
            items.push(Item { name: name.to_owned(), kind });
            if count % 1_024 == 0 && self.walk.stop.now() {
                return Vec::new();
            }
        }
        let above = folder.ignores.take();
        folder.ignores =
            Ignores::of_folder(above.as_ref(), self.walk.workspace, folder.fd.as_fd(), &folder.path, rules);
        self.divide(&Arc::new(folder), items)
    }

    /// Visits what is no file, and makes jobs of the rest.
    fn divide(&mut self, folder: &Arc<Folder>, items: Vec<Item>) -> Vec<Job> {
        let (mut jobs, mut files) = (Vec::new(), Vec::new());
        for item in items {
            if item.kind == FileType::Directory {
                if self.folder(folder, &item.name) {
                    jobs.push(Job::Enter(folder.clone(), item.name));
                }
            } else {
                files.push(item);
            }
        }
        while files.len() > limits::WALK_BATCH_FILES {
            let rest = files.split_off(files.len() - limits::WALK_BATCH_FILES);
            jobs.push(Job::Files(folder.clone(), rest));
        }
        if jobs.is_empty() {
            self.files(folder, files);
        } else if !files.is_empty() {
            jobs.push(Job::Files(folder.clone(), files));
        }
        jobs
    }

    /// Visits a folder. Whether to enter it.
    fn folder(&mut self, above: &Folder, name: &CStr) -> bool {
        let (walk, mut path) = (self.walk, std::mem::take(&mut self.path));
        fill(&mut path, above, name);
        let is_excluded =
            walk.glob.is_some_and(|glob| walk.globs(&path).iter().any(|path| glob.excludes(path)));
        let is_ignored = || above.ignores.as_ref().is_some_and(|rules| rules.is_ignored(&path, true));
        let enters = if is_excluded {
            false
        } else if is_ignored() && !walk.is_named(&path, true) {
            self.left_out.ignored_folders += 1;
            false
        } else {
            if walk.is_asked_for(&path, true) {
                let entry =
                    Entry { folder: above, name, kind: FileType::Directory, path: &path[walk.start..] };
                self.visitor.visit(&entry);
            }
            true
        };
        self.path = path;
        enters
    }

    fn files(&mut self, folder: &Folder, items: Vec<Item>) {
        let (walk, mut path) = (self.walk, std::mem::take(&mut self.path));
        for item in items {
            if walk.stop.now() {
                break;
            }
            fill(&mut path, folder, &item.name);
            if !walk.is_asked_for(&path, false) {
                continue;
            }
            let is_ignored = folder.ignores.as_ref().is_some_and(|rules| rules.is_ignored(&path, false));
            if is_ignored && !walk.is_named(&path, false) {
                self.left_out.ignored_files += 1;
                continue;
            }
            let entry = Entry { folder, name: &item.name, kind: item.kind, path: &path[walk.start..] };
            self.visitor.visit(&entry);
        }
        self.path = path;
    }

    fn path_of(&mut self, folder: &Folder, name: &CStr) -> &[u8] {
        fill(&mut self.path, folder, name);
        &self.path
    }
}

fn fill(path: &mut Vec<u8>, folder: &Folder, name: &CStr) {
    path.clear();
    path.extend_from_slice(&folder.path);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
}

/// Where the folder itself does not tell.
fn kind_of(folder: BorrowedFd<'_>, name: &CStr) -> FileType {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

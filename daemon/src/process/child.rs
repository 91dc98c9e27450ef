//! Starting the command: everything that happens between fork and exec.
//!
//! Invariants: the supervisor is single-threaded, and still nothing between fork and exec allocates, locks or
//! panics. What fails there is reported with its step and errno; then the command never ran.

use super::job::{JOB_MARK, JobSpec};
use super::sandbox::{SandboxSpec, apply_sandbox};
use super::streams::WriteEnds;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The shell, and what a system without bash has instead.
const BASH: &CStr = c"/bin/bash";
const SH: &CStr = c"/bin/sh";
/// The last signal number, real-time ones included.
const SIGNAL_MAX: i32 = 64;
/// How the child ends when it could not become the command. Nobody reads it as the command's own.
const REFUSED_CODE: i32 = 127;

#[derive(Clone, Copy)]
#[repr(u8)]
enum Step {
    Session = 1,
    Parent,
    Stdio,
    Folder,
    Sandbox,
    Exec,
}

/// All that the child needs, allocated before the fork.
struct Plan<'a> {
    shell: &'static CStr,
    argv: [*const libc::c_char; 6],
    envp: Vec<*const libc::c_char>,
    cwd: CString,
    umask: Option<u32>,
    sandbox: &'a SandboxSpec,
    null: OwnedFd,
    out: RawFd,
    err: RawFd,
    status: RawFd,
    parent: i32,
}

/// Starts the command of a spec with these streams. The error says why it never ran.
pub(super) fn start(spec: &JobSpec, job: &Path, streams: &WriteEnds) -> Result<Pid, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let command = CString::new(&spec.command[..]).map_err(|_| "the command holds a zero byte".to_owned())?;
    let cwd =
        CString::new(spec.cwd.as_bytes()).map_err(|_| "the folder's name holds a zero byte".to_owned())?;
    let env = environment(spec, job)?;
    let null =
        rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC, 0.into())
            .map_err(|error| failed("/dev/null cannot be opened", &error))?;
    let (status_read, status_write) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("no pipe could be made", &error))?;
    let has_bash = rustix::fs::access(BASH, rustix::fs::Access::EXEC_OK).is_ok();
    let end = std::ptr::null();
    let (shell, argv) = if has_bash {
        let flags = [c"--norc", c"--noprofile", c"-c"].map(CStr::as_ptr);
        (BASH, [c"bash".as_ptr(), flags[0], flags[1], flags[2], command.as_ptr(), end])
    } else {
        (SH, [c"sh".as_ptr(), c"-c".as_ptr(), command.as_ptr(), end, end, end])
    };
    let plan = Plan {
        shell,
        argv,
        envp: env.iter().map(|entry| entry.as_ptr()).chain([end]).collect(),
        cwd,
        umask: spec.umask,
        sandbox: &spec.sandbox,
        null,
        out: streams.out.as_raw_fd(),
        err: streams.err.as_raw_fd(),
        status: status_write.as_raw_fd(),
        parent: rustix::process::getpid().as_raw_nonzero().get(),
    };
    // SAFETY: the process is single-threaded, so the child's copy of memory is consistent; the child only makes
    // system calls and leaves by exec or _exit. `plan` and all its pointers outlive the call.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(failed("no process could be made", &io::Error::last_os_error())),
        // SAFETY: this is the child of the fork above.
        0 => unsafe { become_command(&plan) },
        pid => pid,
    };
    drop(status_write);
    let refused = read_status(&status_read);
    let pid = Pid::from_raw(pid).ok_or("fork gave no process id")?;
    match refused {
        None => Ok(pid),
        Some((step, errno)) => {
            // It ends by itself right after its report.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(explain(step, errno, spec, plan.shell))
        }
    }
}

fn environment(spec: &JobSpec, job: &Path) -> Result<Vec<CString>, String> {
    let mut entries = Vec::with_capacity(spec.env.len() + 1);
    let mark = (JOB_MARK.as_bytes(), job.as_os_str().as_bytes());
    let given = spec.env.iter().map(|(key, value)| (&key[..], &value[..]));
    for (key, value) in given.filter(|(key, _)| *key != mark.0).chain([mark]) {
        let entry = [key, b"=", value].concat();
        let named = CString::new(entry)
            .map_err(|_| format!("the variable {} holds a zero byte", String::from_utf8_lossy(key)))?;
        entries.push(named);
    }
    Ok(entries)
}

/// In the child. Only async-signal-safe calls from here on.
///
/// # Safety
/// Must be called in the child of a fork of a single-threaded process, with a plan whose pointers are valid.
unsafe fn become_command(plan: &Plan<'_>) -> ! {
    // SAFETY: system calls on valid pointers and descriptors of the plan; see the function's contract.
    unsafe {
        let (step, errno) = match prepare(plan) {
            Err(failed) => failed,
            Ok(()) => {
                libc::execve(plan.shell.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
                (Step::Exec, *libc::__errno_location())
            }
        };
        let mut report = [0_u8; 5];
        report[0] = step as u8;
        report[1..].copy_from_slice(&errno.to_ne_bytes());
        libc::write(plan.status, report.as_ptr().cast(), report.len());
        libc::_exit(REFUSED_CODE)
    }
}

/// # Safety
/// As [`become_command`].
unsafe fn prepare(plan: &Plan<'_>) -> Result<(), (Step, i32)> {
    let step = |result: libc::c_int, step: Step| {
        // SAFETY: errno is always readable.
        if result < 0 { Err((step, unsafe { *libc::__errno_location() })) } else { Ok(()) }
    };
    // SAFETY: see the function's contract.
    unsafe {
        step(libc::setsid(), Step::Session)?;
        step(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0), Step::Parent)?;
        // The supervisor may have died before that line.
        if libc::getppid() != plan.parent {
            return Err((Step::Parent, libc::ESRCH));
        }
        step(libc::dup2(plan.null.as_raw_fd(), 0), Step::Stdio)?;
        step(libc::dup2(plan.out, 1), Step::Stdio)?;
        step(libc::dup2(plan.err, 2), Step::Stdio)?;
        if let Some(mask) = plan.umask {
            libc::umask(mask);
        }
        step(libc::chdir(plan.cwd.as_ptr()), Step::Folder)?;
        for signal in 1..=SIGNAL_MAX {
            // Past libc, which refuses to reset the two it keeps for itself, inherited as ignored or not. Zeroes
            // are the default action, no flags, no mask, in the kernel's form. Fails for KILL and STOP.
            let default = [0_u64; 4];
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8_usize);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        step(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()), Step::Session)?;
        // All of ours are close-on-exec; this covers what a library might have opened.
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
    apply_sandbox(plan.sandbox).map_err(|errno| (Step::Sandbox, errno))
}

/// Nothing when the child became the command: exec closed its end.
fn read_status(status: &OwnedFd) -> Option<(u8, i32)> {
    let mut report = [0_u8; 5];
    let len = rustix::io::retry_on_intr(|| rustix::io::read(status, &mut report)).ok()?;
    let [step, errno @ ..] = report;
    (len == report.len()).then(|| (step, i32::from_ne_bytes(errno)))
}

fn explain(step: u8, errno: i32, spec: &JobSpec, shell: &CStr) -> String {
    let cause = Errno::from_raw_os_error(errno);
    let cause = io::Error::from(cause);
    let shell = shell.to_string_lossy();
    match step {
        step if step == Step::Folder as u8 => {
            format!("cannot enter the folder {}: {cause}", spec.cwd.display())
        }
        step if step == Step::Sandbox as u8 => {
            format!("the sandbox {:?} does not hold here: {cause}", spec.sandbox.name())
        }
        step if step == Step::Exec as u8 && errno == libc::E2BIG => format!(
            "{shell} cannot be started: a command of {} bytes with its environment is too long for this system; \
             write it to a file and run that",
            spec.command.len()
        ),
        step if step == Step::Exec as u8 => format!("{shell} cannot be started: {cause}"),
        _ => format!("the process could not be set up (step {step}): {cause}"),
    }
}

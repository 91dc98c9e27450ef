//! Lets the test program of this crate play the supervisor, as the real program does: before anything else runs
//! in it. The test harness's own `main` comes too late; its threads would take the supervisor's signals.

use super::exec::{EXEC_ARG, exec_main};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;

#[used]
// SAFETY: the section holds pointers to functions that the C runtime calls before main, with these arguments.
#[unsafe(link_section = ".init_array")]
static PLAY_SUPERVISOR: extern "C" fn(libc::c_int, *const *const libc::c_char) = play_supervisor;

extern "C" fn play_supervisor(count: libc::c_int, args: *const *const libc::c_char) {
    let args: Vec<OsString> = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the C runtime gives `count` valid, NUL-terminated arguments.
        .map(|at| unsafe { CStr::from_ptr(*args.add(at)) })
        .map(|arg| OsString::from_vec(arg.to_bytes().to_vec()))
        .collect();
    if args.get(1).is_some_and(|arg| arg == EXEC_ARG) {
        std::process::exit(exec_main(args.into_iter().skip(2)));
    }
}

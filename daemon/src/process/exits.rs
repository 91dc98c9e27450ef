//! Waiting for the exit of any process, child or not, through its pidfd.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// Returns once the process behind a pidfd has ended. A wake-up alone proves nothing: the pidfd is asked.
pub(super) async fn wait_for_exit(pidfd: &Arc<OwnedFd>) {
    // SAFETY: the descriptor is owned by the `Arc` that the `AsyncFd` keeps, so it stays open and the same.
    let registered =
        unsafe { AsyncFd::register_with_interest(Arc::clone(pidfd), tokio::io::Interest::READABLE) };
    let Ok(ready) = registered else {
        // No room in epoll: wait on a thread instead.
        let pidfd = Arc::clone(pidfd);
        let _ = tokio::task::spawn_blocking(move || while !has_ended(&pidfd, None) {}).await;
        return;
    };
    loop {
        let Ok(mut guard) = ready.readable().await else { return };
        if has_ended(pidfd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            return;
        }
        guard.clear_ready();
    }
}

fn has_ended(pidfd: &OwnedFd, wait: Option<&Timespec>) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, wait).is_ok_and(|ready| ready > 0)
}

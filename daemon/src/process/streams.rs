//! The two streams of a command, in the order in which it wrote to them as far as that can be known.
//!
//! Two pipes tell what came from where, and no kernel tells in which order they were written. Two ways bring the order back:
//! * **Exact**, for a command that is all shell: each pipe holds one packet, so a second write to the same stream waits until
//!   the first was read, and the ready list of an edge-triggered epoll is in the order in which the pipes got something. One
//!   packet from each, in the order of the list, is the order of the writes. Not for other programs: one that makes its
//!   output non-blocking (Node does) would lose what does not fit.
//! * **By looking often**, for all others, with ordinary large pipes: as long as little was printed, whoever reads looks
//!   again and again for a moment after each piece, so that the next piece is seen alone. What is written within the same
//!   few microseconds, and all of a flood, comes grouped by stream.
//!
//! Invariant: nothing waits for a stream's end. What the command left running may hold it open for ever.

use agentd_core::limits::{ORDERED_BYTES, ORDERED_LOOKS, PIPE_READ_BYTES};
use rustix::event::epoll;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The capacity of a pipe of one packet, as it is asked for; the kernel makes a page of it.
const ONE_PACKET_BYTES: usize = 4096;

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The writing ends, for the command.
pub(super) struct WriteEnds {
    pub(super) out: OwnedFd,
    pub(super) err: OwnedFd,
}

/// The reading ends.
pub(super) struct Streams {
    ready: OwnedFd,
    pipes: [Option<OwnedFd>; 2],
    /// Kept while the order is exact: packets are a property of the writing end.
    write_ends: Option<WriteEnds>,
    /// The stream that was read last.
    last: usize,
    last_len: usize,
    buffer: Vec<u8>,
    read_bytes: usize,
}

const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

impl Streams {
    /// Makes the pipes, `exact` for a command that is all shell. What is returned beside them is to become the command's.
    pub(super) fn open(exact: bool) -> rustix::io::Result<(Self, WriteEnds)> {
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        let ((out_read, out, exact_out), (err_read, err, exact_err)) = (pipe(exact)?, pipe(exact)?);
        let kept = if exact_out && exact_err {
            Some(WriteEnds { out: fcntl_dupfd_cloexec(&out, 0)?, err: fcntl_dupfd_cloexec(&err, 0)? })
        } else {
            None
        };
        let streams = Self {
            ready,
            pipes: [Some(out_read), Some(err_read)],
            write_ends: kept,
            last: 0,
            last_len: 0,
            buffer: vec![0; PIPE_READ_BYTES],
            read_bytes: 0,
        };
        for at in 0..STREAMS.len() {
            streams.register(at, true)?;
        }
        Ok((streams, WriteEnds { out, err }))
    }

    /// Lets go of the writing ends, so that the streams end when nobody else has them. The order is not exact any more.
    pub(super) fn flow(&mut self) {
        let Some(kept) = self.write_ends.take() else { return };
        for pipe in self.pipes.iter().flatten() {
            let _ = fcntl_setpipe_size(pipe, PIPE_READ_BYTES);
        }
        for end in [&kept.out, &kept.err] {
            // Nothing else of what a program has set.
            let _ = fcntl_getfl(end).and_then(|flags| fcntl_setfl(end, flags - OFlags::DIRECT));
        }
        for at in 0..STREAMS.len() {
            let _ = self.register(at, false);
        }
    }

    fn register(&self, at: usize, is_new: bool) -> rustix::io::Result<()> {
        let Some(pipe) = self.pipes.get(at).and_then(Option::as_ref) else { return Ok(()) };
        let edge = if self.write_ends.is_some() { EventFlags::ET } else { EventFlags::empty() };
        let (data, flags) = (EventData::new_u64(u64::from(at == 1)), EventFlags::IN | edge);
        if is_new {
            epoll::add(&self.ready, pipe, data, flags)
        } else {
            epoll::modify(&self.ready, pipe, data, flags)
        }
    }

    /// Readable when something was written.
    pub(super) fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Whether some stream can still bring something.
    pub(super) fn is_open(&self) -> bool {
        self.pipes.iter().any(Option::is_some)
    }

    /// Takes what is there now, a piece of each stream that has one, and for a moment what follows. False: there was
    /// nothing.
    pub(super) fn read_once(&mut self, mut push: impl FnMut(Stream, &[u8])) -> bool {
        let mut any = self.read_ready(&mut push);
        if self.write_ends.is_some() {
            if self.read_bytes > ORDERED_BYTES {
                self.flow();
            }
            return any;
        }
        let mut looks = if any { ORDERED_LOOKS } else { 0 };
        while looks > 0 && self.read_bytes < ORDERED_BYTES {
            looks -= 1;
            if self.read_ready(&mut push) {
                any = true;
                looks = ORDERED_LOOKS;
            }
        }
        any
    }

    fn read_ready(&mut self, push: &mut impl FnMut(Stream, &[u8])) -> bool {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.ready, &mut events[..], Some(&now)) {
            Ok(count) => count,
            Err(Errno::INTR) => return true,
            Err(_) => 0,
        };
        let mut ready: Vec<usize> =
            events.iter().take(count).map(|event| usize::from(event.data.u64() == 1)).collect();
        if self.write_ends.is_some() {
            // In the order in which they became readable.
            return self.read_all(&ready, push);
        }
        // What a program writes to the other stream comes after what it had written to this one, which may still be on its
        // way here.
        if ready.len() > 1 {
            ready = vec![self.last, 1 - self.last];
            let last = self.last;
            // Bounded by what the pipe can hold.
            for _ in 0..2 {
                if !self.read(last, push) || !self.filled() {
                    break;
                }
            }
        }
        self.read_all(&ready, push)
    }

    /// A piece of each of these streams. False: none had one.
    fn read_all(&mut self, streams: &[usize], push: &mut impl FnMut(Stream, &[u8])) -> bool {
        let mut any = false;
        for at in streams {
            any |= self.read(*at, push);
        }
        any
    }

    /// Whether the last read took all that fits, so that more is likely to wait.
    fn filled(&self) -> bool {
        self.last_len == self.buffer.len()
    }

    fn read(&mut self, at: usize, push: &mut impl FnMut(Stream, &[u8])) -> bool {
        let Some(pipe) = self.pipes.get(at).and_then(Option::as_ref) else { return false };
        match rustix::io::read(pipe, &mut self.buffer[..]) {
            Ok(len) if len > 0 => {
                self.read_bytes = self.read_bytes.saturating_add(len);
                (self.last, self.last_len) = (at, len);
                push(STREAMS[at], self.buffer.get(..len).unwrap_or_default());
                // What is left in it, or came meanwhile, would bring no edge of its own.
                if self.write_ends.is_some() {
                    let _ = self.register(at, false);
                }
                true
            }
            Err(Errno::INTR) => {
                let _ = self.register(at, false);
                true
            }
            Err(Errno::AGAIN) => false,
            Ok(_) | Err(_) => {
                // Closing takes it out of the list.
                self.pipes[at] = None;
                false
            }
        }
    }
}

/// A pipe, and whether it holds one packet at a time. Only our end is non-blocking.
fn pipe(exact: bool) -> rustix::io::Result<(OwnedFd, OwnedFd, bool)> {
    // Where packets are not known, an ordinary pipe is as good for all else.
    if exact && let Ok((read, write)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT) {
        rustix::io::ioctl_fionbio(&read, true)?;
        if fcntl_setpipe_size(&read, ONE_PACKET_BYTES).is_ok() {
            return Ok((read, write, true));
        }
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    // Fewer switches under a flood. The user's share of pipe memory may be used up; then it stays as it is.
    let _ = fcntl_setpipe_size(&read, PIPE_READ_BYTES);
    Ok((read, write, false))
}

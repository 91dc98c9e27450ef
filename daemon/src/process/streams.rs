//! The two streams of a command, in the order in which it wrote to them.
//!
//! Two pipes tell what came from where, and lose the order: a reader that wakes finds both full and cannot know which
//! was first. Here it can. At first each pipe holds one packet: a second write to the same stream waits until the first
//! was read. And the ready list of an edge-triggered epoll is in the order in which the pipes got something. So one
//! packet from each, in the order of the list, is the order of the writes, exactly.
//!
//! That costs a switch for each write. A command that prints more than a little goes on with large pipes; then the
//! order is kept from read to read, and no longer within one.
//!
//! Invariant: nothing waits for a stream's end. What the command left running may hold it open for ever.

use agentd_core::limits::{EXACT_ORDER_BYTES, PIPE_READ_BYTES};
use rustix::event::epoll;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
use rustix::fs::{OFlags, fcntl_setfl};
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
    buffer: Vec<u8>,
    read_bytes: usize,
}

const STREAMS: [Stream; 2] = [Stream::Out, Stream::Err];

impl Streams {
    /// Makes the pipes. What is returned beside them is to become the command's.
    pub(super) fn open() -> rustix::io::Result<(Self, WriteEnds)> {
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        let ((out_read, out, one_packet_out), (err_read, err, one_packet_err)) = (pipe()?, pipe()?);
        let kept = if one_packet_out && one_packet_err {
            Some(WriteEnds { out: fcntl_dupfd_cloexec(&out, 0)?, err: fcntl_dupfd_cloexec(&err, 0)? })
        } else {
            None
        };
        let is_exact = kept.is_some();
        let streams = Self {
            ready,
            pipes: [Some(out_read), Some(err_read)],
            write_ends: kept,
            buffer: vec![0; PIPE_READ_BYTES],
            read_bytes: 0,
        };
        for at in 0..STREAMS.len() {
            streams.register(at, is_exact, true)?;
        }
        if !is_exact {
            streams.enlarge();
        }
        Ok((streams, WriteEnds { out, err }))
    }

    /// Readable when something was written.
    pub(super) fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Whether some stream can still bring something.
    pub(super) fn is_open(&self) -> bool {
        self.pipes.iter().any(Option::is_some)
    }

    /// Takes what is there now, a piece of each stream that has one, in order. False: there was nothing.
    pub(super) fn read_once(&mut self, mut push: impl FnMut(Stream, &[u8])) -> bool {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.ready, &mut events[..], Some(&now)) {
            Ok(count) => count,
            Err(Errno::INTR) => return true,
            Err(_) => 0,
        };
        let mut any = false;
        for event in events.iter().take(count) {
            let at = usize::from(event.data.u64() == 1);
            any |= self.read(at, &mut push);
        }
        if self.write_ends.is_some() && self.read_bytes > EXACT_ORDER_BYTES {
            self.flow();
        }
        any
    }

    /// Lets go of the writing ends, so that the streams end when nobody else has them. The order is not exact any more.
    pub(super) fn flow(&mut self) {
        let Some(kept) = self.write_ends.take() else { return };
        self.enlarge();
        for end in [&kept.out, &kept.err] {
            let _ = fcntl_setfl(end, OFlags::empty());
        }
        for at in 0..STREAMS.len() {
            let _ = self.register(at, false, false);
        }
    }

    /// Fewer switches under a flood. The user's share of pipe memory may be used up; then they stay as they are.
    fn enlarge(&self) {
        for pipe in self.pipes.iter().flatten() {
            let _ = fcntl_setpipe_size(pipe, PIPE_READ_BYTES);
        }
    }

    fn register(&self, at: usize, is_exact: bool, is_new: bool) -> rustix::io::Result<()> {
        let Some(pipe) = self.pipes.get(at).and_then(Option::as_ref) else { return Ok(()) };
        let edge = if is_exact { EventFlags::ET } else { EventFlags::empty() };
        let (data, flags) = (EventData::new_u64(u64::from(at == 1)), EventFlags::IN | edge);
        if is_new {
            epoll::add(&self.ready, pipe, data, flags)
        } else {
            epoll::modify(&self.ready, pipe, data, flags)
        }
    }

    fn read(&mut self, at: usize, push: &mut impl FnMut(Stream, &[u8])) -> bool {
        let Some(pipe) = self.pipes.get(at).and_then(Option::as_ref) else { return false };
        match rustix::io::read(pipe, &mut self.buffer[..]) {
            Ok(len) if len > 0 => {
                self.read_bytes = self.read_bytes.saturating_add(len);
                push(STREAMS[at], self.buffer.get(..len).unwrap_or_default());
                // A command may have made its pipe larger: what is left in it would bring no edge of its own.
                if self.write_ends.is_some() {
                    let _ = self.register(at, true, false);
                }
                true
            }
            Err(Errno::INTR) => {
                let _ = self.register(at, self.write_ends.is_some(), false);
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
fn pipe() -> rustix::io::Result<(OwnedFd, OwnedFd, bool)> {
    // Where packets are not known, it is as good a pipe for all else.
    let packets = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT);
    let (read, write, in_packets) = match packets {
        Ok((read, write)) => (read, write, true),
        Err(_) => pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (read, write, false))?,
    };
    rustix::io::ioctl_fionbio(&read, true)?;
    let one_packet = in_packets && fcntl_setpipe_size(&read, ONE_PACKET_BYTES).is_ok();
    if in_packets && !one_packet {
        fcntl_setfl(&write, OFlags::empty())?;
    }
    Ok((read, write, one_packet))
}

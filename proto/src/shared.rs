//! Frames that are encoded once and sent to many clients.
//!
//! Encoding an event for each of its watchers would make fan-out cost grow with their number times the size of
//! the event. [`AttachFrame`] has the wire form of `AttachResponse`, but holds an event as bytes that were
//! encoded before: a message field and a bytes field look the same on the wire.

use crate::v1;
use bytes::Bytes;
use prost::Message;

/// One frame of an attach stream, as the server sends it.
#[derive(Clone, PartialEq, Message)]
pub struct AttachFrame {
    /// What it is.
    #[prost(oneof = "AttachFrameKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub frame: Option<AttachFrameKind>,
}

/// The kinds of frame; tags as in `AttachResponse`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AttachFrameKind {
    /// How things are.
    #[prost(message, tag = "1")]
    Snapshot(Box<v1::Session>),
    /// An event, encoded.
    #[prost(bytes = "bytes", tag = "2")]
    Event(Bytes),
    /// The open block from its beginning.
    #[prost(message, tag = "3")]
    Draft(v1::Delta),
    /// A piece of live text, encoded.
    #[prost(bytes = "bytes", tag = "4")]
    Delta(Bytes),
    /// The log has been sent.
    #[prost(message, tag = "5")]
    CaughtUp(v1::AttachCaughtUp),
    /// Live text was dropped.
    #[prost(message, tag = "6")]
    Lagged(v1::AttachLagged),
    /// Why the stream ends.
    #[prost(message, tag = "7")]
    GoingAway(v1::GoingAway),
}

impl AttachFrame {
    /// A frame of this kind.
    pub fn new(kind: AttachFrameKind) -> Self {
        Self { frame: Some(kind) }
    }
}

/// Encodes a message once, for many frames.
pub fn encode_once(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_frame_is_read_as_the_contract_says() {
        let event = v1::Event { seq: 7, kind: "turn_started".to_owned(), ..Default::default() };
        let frame = AttachFrame::new(AttachFrameKind::Event(encode_once(&event)));
        let read = v1::AttachResponse::decode(frame.encode_to_vec().as_slice()).unwrap();
        assert_eq!(read.frame, Some(v1::attach_response::Frame::Event(event)));
    }
}

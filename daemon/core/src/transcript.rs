//! What a conversation consists of: the content that events added, in the order of the log.
//!
//! Invariants: append-only; only [`crate::event::EventKind::adds_content`] kinds append. Cloning costs a
//! few pointers per hundred items, so that a decision can work on a copy of the state.

use crate::event::{Block, Dialect, NoticeKind};
use crate::ids::{CallId, InputId, ModelCallId, Seq, TurnNo};
use std::sync::Arc;

/// Items in one shared chunk; a clone copies one pointer for each full chunk and the items of the last.
const CHUNK_ITEMS: usize = 64;

/// A model at a provider: only it takes its own blocks back as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// How it is spoken to.
    pub dialect: Dialect,
}

/// One piece of content.
#[derive(Clone, Debug)]
pub struct Item {
    /// The event it came from.
    pub seq: Seq,
    /// Its turn.
    pub turn: TurnNo,
    /// What it is.
    pub content: Content,
}

/// What a piece of content is.
#[derive(Clone, Debug)]
pub enum Content {
    /// What a person wrote.
    Input {
        /// Which input.
        input_id: InputId,
        /// Its text.
        text: Arc<str>,
    },
    /// What the model answered.
    Assistant {
        /// Which call.
        model_call_id: ModelCallId,
        /// Who said it.
        speaker: Arc<Speaker>,
        /// Its blocks, in order.
        blocks: Arc<[Block]>,
    },
    /// What a call came to.
    Result {
        /// Which call.
        call_id: CallId,
        /// The provider's id of it.
        provider_call_id: Arc<str>,
        /// Its place in its message.
        position: u32,
        /// The tool, for the ledger.
        tool: Arc<str>,
        /// What the model reads.
        text: Arc<str>,
        /// Whether it is flagged as an error.
        is_error: bool,
    },
    /// A fact added for the model.
    Notice {
        /// What about.
        kind: NoticeKind,
        /// Its words.
        text: Arc<str>,
    },
}

/// The content of a session.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    full: Vec<Arc<Vec<Item>>>,
    last: Vec<Item>,
}

impl Transcript {
    /// Adds an item to the end.
    pub fn push(&mut self, item: Item) {
        self.last.push(item);
        if self.last.len() == CHUNK_ITEMS {
            self.full.push(Arc::new(std::mem::take(&mut self.last)));
        }
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(self.last.iter())
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK_ITEMS + self.last.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

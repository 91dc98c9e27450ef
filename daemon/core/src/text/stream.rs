//! Decoding piece by piece, for what is too long to be held.

use super::{Charset, Encoding};

/// Decodes a stream to UTF-8. Bytes of UTF-8 go through as they are.
pub struct Stream(Option<encoding_rs::Decoder>);

impl Encoding {
    /// Begins to decode what stands after the mark.
    pub fn stream(self) -> Stream {
        let decoder = match self.charset {
            Charset::Utf8 => None,
            Charset::Utf16Le => Some(encoding_rs::UTF_16LE),
            Charset::Utf16Be => Some(encoding_rs::UTF_16BE),
            Charset::Legacy(encoding) => Some(encoding),
        };
        Stream(decoder.map(encoding_rs::Encoding::new_decoder_without_bom_handling))
    }
}

impl Stream {
    /// Decodes the next piece to the end of `out`; the last one ends what was begun. Nothing may follow it.
    pub fn push(&mut self, piece: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let Some(decoder) = &mut self.0 else {
            out.extend_from_slice(piece);
            return;
        };
        let mut text = String::new();
        // Never too small: the decoder says itself what it may need.
        text.reserve(decoder.max_utf8_buffer_length(piece.len()).unwrap_or(piece.len().saturating_mul(3)));
        let (_, _, _) = decoder.decode_to_string(piece, &mut text, is_last);
        out.extend_from_slice(text.as_bytes());
    }
}

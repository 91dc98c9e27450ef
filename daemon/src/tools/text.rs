//! Bytes as text for a model.

/// How many of the first bytes make whole characters: `limit`, or up to three more or less so that no character is
/// cut. Bytes that are not UTF-8 count one by one.
pub(super) fn whole_characters(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let back = (0..4).map(|step| limit.saturating_sub(step)).find(|at| !is_inside(*at));
    match back {
        Some(at) if at > 0 => at,
        // Not UTF-8, or a limit smaller than one character.
        _ => (limit..bytes.len()).find(|at| !is_inside(*at)).unwrap_or(bytes.len()),
    }
}

/// As text: bytes that are not UTF-8 become replacement marks, NUL its picture, because no provider takes it.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{2400}") } else { text.into_owned() }
}

/// Bytes as `7f 45 4c 46`.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// A SHA-256 in hex.
pub(super) fn hash_text(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of bytes, in hex.
pub(super) fn hash(bytes: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    hash_text(Sha256::digest(bytes))
}

//! Whether bytes that a request calls an image are one.

/// Media types of images.
pub(super) const TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Bytes of an image.
const IMAGE_MAX_BYTES: usize = 5 * 1024 * 1024;

/// What is wrong with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    NotBase64,
    TooLarge,
    NotThatImage,
}

/// Holds the data to its media type by its first bytes.
pub(super) fn check(media_type: &str, base64: &str) -> Result<(), Fault> {
    if base64.is_empty() {
        return Err(Fault::NotThatImage);
    }
    let bytes = decode(base64).ok_or(Fault::NotBase64)?;
    if bytes.len() > IMAGE_MAX_BYTES {
        return Err(Fault::TooLarge);
    }
    let is_that = match media_type {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        "image/gif" => bytes.starts_with(b"GIF8"),
        "image/webp" => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        _ => false,
    };
    if is_that { Ok(()) } else { Err(Fault::NotThatImage) }
}

/// Standard base64 with padding, and nothing else.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in &text[..text.len() - padding.min(2)] {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_it_is_called() {
        assert_eq!(decode("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(check("image/png", "iVBORw0KGgo="), Ok(()));
        assert_eq!(check("image/gif", "iVBORw0KGgo="), Err(Fault::NotThatImage));
        assert_eq!(check("image/png", "iVBORw0KGgo"), Err(Fault::NotBase64));
        assert_eq!(check("image/png", "iVBO*w0K"), Err(Fault::NotBase64));
        assert_eq!(check("image/png", ""), Err(Fault::NotThatImage));
    }
}

//! Kinds of files that are not text, by how they begin.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// In words, with its article.
    pub name: &'static str,
    /// Its media type; none where it is of no use to a model.
    pub mime: Option<&'static str>,
    /// No text begins like this.
    pub is_never_text: bool,
    /// Width and height in pixels, where the header says them plainly.
    pub pixels: Option<(u32, u32)>,
}

/// How it begins, its name, its media type, whether that is never text.
type Row = (&'static [u8], &'static str, Option<&'static str>, bool);

const KINDS: &[Row] = &[
    (b"\x89PNG\r\n\x1a\n", "a PNG image", Some("image/png"), true),
    (b"\xff\xd8\xff", "a JPEG image", Some("image/jpeg"), true),
    (b"GIF87a", "a GIF image", Some("image/gif"), false),
    (b"GIF89a", "a GIF image", Some("image/gif"), false),
    (b"%PDF-", "a PDF document", Some("application/pdf"), true),
    (b"\x7fELF", "an ELF program or library", None, true),
    (b"PK\x03\x04", "a ZIP archive", None, true),
    (b"\x1f\x8b", "gzip data", None, true),
    (b"\x28\xb5\x2f\xfd", "zstd data", None, true),
    (b"\xfd7zXZ\0", "xz data", None, true),
    (b"BZh", "bzip2 data", None, false),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", None, true),
    (b"SQLite format 3\0", "an SQLite database", None, true),
    (b"\0asm", "a WebAssembly module", None, true),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O file", None, true),
    (b"OggS", "an Ogg file", None, false),
    (b"fLaC", "FLAC sound", None, false),
    (b"ID3", "MP3 sound", None, false),
    (b"II*\0", "a TIFF image", None, true),
    (b"MM\0*", "a TIFF image", None, true),
    (b"BM", "a BMP image", None, false),
    (b"MZ", "a Windows program", None, false),
    (b"\xff\xfe\0\0", "text in UTF-32LE (iconv converts it)", None, true),
    (b"\0\0\xfe\xff", "text in UTF-32BE (iconv converts it)", None, true),
    (b"RIFF", "a RIFF file", None, false),
];

/// What begins so, if it is known. More bytes may tell more; 64 KiB tell all there is.
pub fn kind_of(head: &[u8]) -> Option<Media> {
    if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        let (name, mime) = ("a WebP image", Some("image/webp"));
        return Some(Media { name, mime, is_never_text: true, pixels: webp_pixels(head) });
    }
    let (_, name, mime, is_never_text) = KINDS.iter().find(|(magic, ..)| head.starts_with(magic))?;
    let pixels = match *mime {
        Some("image/png") => png_pixels(head),
        Some("image/gif") => Some((little(head, 6)?, little(head, 8)?)),
        Some("image/jpeg") => jpeg_pixels(head),
        _ => None,
    };
    Some(Media { name, mime: *mime, is_never_text: *is_never_text, pixels })
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
}

fn little(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])))
}

fn png_pixels(head: &[u8]) -> Option<(u32, u32)> {
    if head.get(12..16) != Some(b"IHDR") {
        return None;
    }
    let number = |at: usize| Some(big(head, at)? << 16 | big(head, at + 2)?);
    Some((number(16)?, number(20)?))
}

/// From segment to segment, until the one that begins the picture.
fn jpeg_pixels(head: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *head.get(at)? != 0xff {
            return None;
        }
        match *head.get(at + 1)? {
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big(head, at + 7)?, big(head, at + 5)?));
            }
            _ => at += 2 + usize::try_from(big(head, at + 2)?).ok()?.max(2),
        }
    }
}

fn webp_pixels(head: &[u8]) -> Option<(u32, u32)> {
    let three = |at: usize| Some(little(head, at)? | u32::from(*head.get(at + 2)?) << 16);
    match head.get(12..16)? {
        b"VP8 " => Some((little(head, 26)? & 0x3fff, little(head, 28)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(head, 21)? | little(head, 23)? << 16;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((three(24)? + 1, three(27)? + 1)),
        _ => None,
    }
}

//! Events come out the same however the bytes came in.

use super::*;
use proptest::prelude::*;

fn read(chunks: &[&[u8]], max: usize) -> Result<Vec<String>, SseError> {
    let mut out = Vec::new();
    let mut decoder = SseDecoder::with_max(max);
    let mut each = |item: SseItem<'_>| {
        out.push(match item {
            SseItem::Comment => ":".to_owned(),
            SseItem::Event { name, data } => {
                format!("{}|{}", String::from_utf8_lossy(name), String::from_utf8_lossy(data))
            }
        });
    };
    for chunk in chunks {
        decoder.push(chunk, &mut each)?;
    }
    decoder.finish(&mut each)?;
    Ok(out)
}

fn whole(text: &str) -> Vec<String> {
    read(&[text.as_bytes()], 1_000).unwrap()
}

#[test]
fn fields_lines_and_comments_are_told_apart() {
    assert_eq!(whole("event: a\ndata: 1\n\n"), ["a|1"]);
    assert_eq!(whole("data:1\ndata: 2\ndata:  3\ndata\n\n"), ["|1\n2\n 3\n"]);
    assert_eq!(whole(": hello\n:\ndata: x: y\nid: 7\nretry: 9\nnonsense\n\n"), [":", ":", "|x: y"]);
    assert_eq!(
        whole("event: ping\n\n\n\ndata: 1\n\n"),
        ["|1"],
        "an event without data is none, and its name is gone"
    );
    assert_eq!(whole("\u{feff}data: 1\n\n"), ["|1"]);
}

#[test]
fn every_line_end_is_one_line_end() {
    for text in ["data: 1\r\n\r\ndata: 2\r\n\r\n", "data: 1\r\rdata: 2\r\r", "data: 1\n\ndata: 2\n\n"] {
        assert_eq!(whole(text), ["|1", "|2"], "{text:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes, 1_000).unwrap(), ["|1", "|2"], "{text:?} byte by byte");
    }
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(whole("data: 1\n\ndata: 2"), ["|1", "|2"]);
    assert_eq!(whole("data: 1\n\ndata: 2\n"), ["|1", "|2"]);
}

#[test]
fn an_endless_line_or_event_is_an_error() {
    let long = "data: ".to_owned() + &"x".repeat(100);
    assert_eq!(read(&[long.as_bytes()], 64), Err(SseError::LineTooLong { max: 64 }));
    let pieces: Vec<&[u8]> = long.as_bytes().chunks(3).collect();
    assert_eq!(read(&pieces, 64), Err(SseError::LineTooLong { max: 64 }));
    let many = "data: xxxxxxxxxx\n".repeat(10);
    assert_eq!(read(&[many.as_bytes()], 64), Err(SseError::EventTooLong { max: 64 }));
}

#[test]
fn characters_may_be_cut_anywhere() {
    let text = "data: {\"t\":\"é北😀\"}\r\n\r\n";
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes, 1_000).unwrap(), ["|{\"t\":\"é北😀\"}"]);
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"data: ".to_vec()),
        Just(b"event: ".to_vec()),
        Just(b":".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunking_changes_nothing(bytes in stream(), cuts in proptest::collection::vec(1_usize..9, 1..60)) {
        let mut chunks = Vec::new();
        let (mut rest, mut at) = (&bytes[..], 0);
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(cuts[at % cuts.len()].min(rest.len()));
            chunks.push(head);
            (rest, at) = (tail, at + 1);
        }
        prop_assert_eq!(read(&chunks, 1_000), read(&[&bytes], 1_000));
    }

    #[test]
    fn memory_stays_within_the_bound(bytes in stream()) {
        let mut decoder = SseDecoder::with_max(16);
        for chunk in bytes.chunks(5) {
            if decoder.push(chunk, |_| {}).is_err() { break; }
            prop_assert!(decoder.line.len() <= 16 && decoder.data.len() <= 16 && decoder.name.len() <= 16);
        }
    }
}

use super::super::spool_writer::SpoolWriter;
use super::*;

fn written(max_bytes: u64, pieces: &[&[u8]]) -> (tempfile::TempDir, Spool) {
    let home = tempfile::tempdir().unwrap();
    let mut writer = SpoolWriter::create(home.path(), max_bytes);
    pieces.iter().for_each(|piece| writer.push(piece));
    assert_eq!(writer.error(), None);
    let spool = Spool::new(home.path().to_path_buf());
    assert_eq!(spool.total_bytes().unwrap(), writer.total_bytes());
    assert_eq!(spool.total_lines().unwrap(), writer.total_lines());
    (home, spool)
}

fn whole(spool: &Spool) -> Vec<u8> {
    let mut bytes = Vec::new();
    spool.open_reader().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(std::fs::read(spool.assemble().unwrap()).unwrap(), bytes);
    bytes
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| format!("line {at}\n").into_bytes()).collect()
}

#[test]
fn nothing_printed_is_nothing_read() {
    let (_home, spool) = written(100, &[]);
    assert_eq!(spool.read_head_tail(10, 10, 100).unwrap(), HeadTail::default());
    assert_eq!(whole(&spool), b"");
    assert_eq!(Spool::new("/no/such/folder".into()).read(0, 10).unwrap(), (0, Vec::new()));
}

#[test]
fn up_to_the_bound_everything_is_kept_whatever_the_pieces() {
    let text = lines(100);
    for size in [1, 7, 64, 1000] {
        let pieces: Vec<&[u8]> = text.chunks(size).collect();
        let (_home, spool) = written(text.len() as u64 + 8, &pieces);
        assert_eq!(whole(&spool), text, "{size}");
    }
}

#[test]
fn beyond_the_bound_both_ends_are_kept_and_the_gap_is_told() {
    for extra in 0..200 {
        let text = [lines(500), vec![b'e'; extra]].concat();
        let (home, spool) = written(400, &text.chunks(33).collect::<Vec<_>>());
        let kept: u64 =
            std::fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!((350..=400).contains(&kept), "{kept}");
        let parts = spool.spool_files().unwrap();
        let [
            SpoolPart::File { start: 0, len: 200, .. },
            SpoolPart::Gap { start: 200, len, lines },
            rest @ ..,
        ] = &parts[..]
        else {
            panic!("{parts:?}")
        };
        let gap = &text[200..200 + *len as usize];
        assert_eq!(*lines, gap.iter().filter(|byte| **byte == b'\n').count() as u64);
        assert!(rest.len() >= 3);
        let marker = parts[1].marker().unwrap();
        let expected = [&text[..200], marker.as_bytes(), &text[200 + gap.len()..]].concat();
        assert_eq!(whole(&spool), expected);
        // Reading inside the gap goes on behind it, and says so.
        let (offset, bytes) = spool.read(300, 5).unwrap();
        assert_eq!((offset, &bytes[..]), (200 + len, &text[200 + gap.len()..200 + gap.len() + 5]));
    }
}

#[test]
fn head_and_tail_never_overlap_and_never_lose_a_line() {
    for count in 0..40 {
        let text = lines(count);
        for max_bytes in [20, 64, 100, 1000] {
            let (_home, spool) = written(1 << 20, &[&text]);
            let view = spool.read_head_tail(10, 5, max_bytes).unwrap();
            let case = format!("{count} lines, {max_bytes} bytes: {view:?}");
            assert!(view.head.len() + view.tail.len() <= max_bytes, "{case}");
            assert!(text.starts_with(&view.head) && text.ends_with(&view.tail), "{case}");
            let shown = count_lines(&view.head) + count_lines(&view.tail);
            assert_eq!(shown + view.omitted_lines, count as u64, "{case}");
            assert_eq!(
                (view.head.len() + view.tail.len()) as u64 + view.omitted_bytes,
                text.len() as u64,
                "{case}"
            );
            if count <= 15 && text.len() <= max_bytes {
                assert_eq!(view.head, text);
            }
            if max_bytes == 1000 && count > 15 {
                assert_eq!((count_lines(&view.head), count_lines(&view.tail)), (10, 5), "{case}");
            }
        }
    }
}

#[test]
fn one_endless_line_is_cut_between_characters() {
    let text = "é".repeat(10_000);
    for max_bytes in 50..60 {
        let (_home, spool) = written(4000, &[text.as_bytes()]);
        let view = spool.read_head_tail(10, 5, max_bytes).unwrap();
        let (head, tail) =
            (std::str::from_utf8(&view.head).unwrap(), std::str::from_utf8(&view.tail).unwrap());
        assert!(head.chars().count() >= 12 && tail.chars().count() >= 12, "{head} {tail}");
        assert_eq!((view.omitted_lines, view.total_lines), (0, 1));
    }
}

#[test]
fn bytes_that_are_no_text_stay() {
    assert_eq!(char_end(b"ab\xff"), 3);
    assert_eq!(char_end(b"ab\xc3"), 2);
    assert_eq!(char_end("abé".as_bytes()), 4);
    assert_eq!(char_end(b"\x80\x80\x80\x80\x80"), 5);
    assert_eq!(char_end(b""), 0);
}

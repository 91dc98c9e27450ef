use super::*;

fn run(content: &[u8], pattern: &str, wanted: Wanted, chunk: usize) -> (Vec<FoundLine>, Searched) {
    let mut lines = Lines::new(Pattern::new(pattern).unwrap().0, wanted);
    let mut found = Vec::new();
    for part in content.chunks(chunk) {
        lines.push(part, &mut found);
    }
    lines.finish(&mut found);
    (found, lines.searched())
}

const ALL: Wanted = Wanted { before: 0, after: 0, max: 1_000 };

fn numbers(found: &[FoundLine]) -> Vec<(u64, bool)> {
    found.iter().map(|line| (line.number, line.is_match)).collect()
}

#[test]
fn lines_are_found_wherever_chunks_end() {
    let content = b"one\ntwo\r\n\nthree two\nlast two";
    for chunk in 1..content.len() + 1 {
        let (found, searched) = run(content, "two$", ALL, chunk);
        assert_eq!(numbers(&found), [(2, true), (4, true), (5, true)], "{chunk}");
        assert_eq!(found[0].text, "two");
        assert_eq!(found[1].at_bytes, 10);
        assert_eq!(searched.matches, 3);
    }
    assert_eq!(numbers(&run(content, "^$", ALL, 7).0), [(3, true)]);
    assert!(run(b"", "x", ALL, 7).0.is_empty());
}

#[test]
fn context_is_told_once_and_the_bound_says_that_it_stopped() {
    let content = b"1\n2x\n3\n4\n5x\n6\n7\n8\n9x\n";
    let wanted = Wanted { before: 1, after: 1, max: 2 };
    let (found, searched) = run(content, "x", wanted, 3);
    assert_eq!(numbers(&found), [(1, false), (2, true), (3, false), (4, false), (5, true), (6, false)]);
    assert!(searched.stopped);
    let (_, searched) = run(content, "x", Wanted { max: 3, ..wanted }, 3);
    assert_eq!((searched.matches, searched.stopped), (3, false));
}

#[test]
fn a_long_line_is_cut_around_its_match() {
    let mut line = vec![b'a'; 100_000];
    line.extend_from_slice("é needle é".as_bytes());
    line.extend(vec![b'b'; 100_000]);
    let (found, searched) = run(&line, "needle", ALL, 4_096);
    assert_eq!(found.len(), 1);
    assert!(found[0].text.contains("é needle é"), "{}", found[0].text);
    assert!(found[0].text.starts_with("…a") && found[0].text.ends_with("b…"));
    assert!(found[0].text.len() <= limits::ARTIFACT_SEARCH_SHOWN_MAX_BYTES + 8);
    assert_eq!(searched.long_lines, 0);
}

#[test]
fn a_line_beyond_the_bound_is_searched_in_pieces_and_found_once() {
    let max = limits::ARTIFACT_SEARCH_LINE_MAX_BYTES;
    for at in [10, max - 3, max + 10, 3 * max - 1] {
        let mut content = b"first\n".to_vec();
        content.extend(vec![b'a'; at]);
        content.extend_from_slice(b"needle");
        content.extend(vec![b'a'; max]);
        content.extend_from_slice(b"\nneedle\n");
        let (found, searched) = run(&content, "needle", ALL, 256 * 1024);
        assert_eq!(numbers(&found), [(2, true), (3, true)], "{at}");
        assert!(found[0].text.contains("aneedlea"), "{at}: {}", found[0].text);
        let shown =
            found[0].text.find("needle").unwrap() - if found[0].text.starts_with('…') { 3 } else { 0 };
        assert_eq!(found[0].at_bytes + shown as u64, 6 + at as u64);
        assert_eq!(searched.long_lines, 1);
        assert_eq!(numbers(&run(&content, "needle.*", ALL, 256 * 1024).0), [(2, true), (3, true)], "{at}");
        // The edges of pieces are not the ends of the line.
        assert_eq!(run(&content, "^a+$", ALL, 256 * 1024).0.len(), 0);
    }
}

#[test]
fn a_wrong_pattern_says_where() {
    let error = Pattern::new("é(ab").unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.at),
        ("unclosed group (at character 2 of the pattern)", Some(2))
    );
    assert!(Pattern::new("").is_err());
    assert!(Pattern::new(&"(a{1000}){1000}".repeat(2)).is_err());
    assert!(Pattern::new(r"\d+\s(?i)x").is_ok());
}

use super::*;
use agentd_core::text::Charset;
use proptest::prelude::*;
use std::io::Write as _;

fn file_of(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

/// Lines with their ends, the plain way.
fn split(content: &[u8], newline: &[u8]) -> Vec<Vec<u8>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for unit in content.chunks(newline.len()) {
        line.extend_from_slice(unit);
        if unit == newline {
            lines.push(std::mem::take(&mut line));
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

const FOREVER: Duration = Duration::from_secs(600);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn lines_are_those_of_the_plain_way_whatever_the_chunks(
        units in prop::collection::vec(prop::sample::select(&[0x0a00_u16, 0x000a, 0x0a0a, 0x6161, 0x0061, 0x6100][..]), 0..60),
        odd in any::<bool>(), charset in prop::sample::select(vec![Charset::Utf8, Charset::Utf16Le, Charset::Utf16Be]),
        chunk in 1_usize..20, at in 0_u64..12, most in 1_usize..20,
    ) {
        let mut content: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        if odd {
            content.push(b'\n');
        }
        let encoding = Encoding { charset, has_mark: false };
        let (expected, file) = (split(&content, encoding.newline()), file_of(&content));
        let mut lines = Lines::in_chunks(&file, encoding, 0, chunk * 2);
        let mut noted = Vec::new();
        let most = most * encoding.newline().len();
        match lines.skip(0, at, FOREVER, &mut noted).unwrap() {
            Skipped::Ended { lines } => {
                prop_assert!(lines <= at);
                prop_assert_eq!(lines, to_u64(expected.len()));
            }
            Skipped::There => {
                let before: usize = expected.iter().take(usize::try_from(at).unwrap()).map(Vec::len).sum();
                prop_assert_eq!(lines.position(), to_u64(before));
                let rest = expected.get(usize::try_from(at).unwrap()..).unwrap_or_default();
                let mut line = Vec::new();
                if let Some(first) = rest.first() {
                    let taken = lines.take(most, &mut line).unwrap();
                    prop_assert_eq!(&line, &first[..first.len().min(most)]);
                    prop_assert_eq!(taken == Taken::Whole, first.len() <= most);
                    // The same line again, piece by piece and without its end.
                    lines.seek(to_u64(before));
                    let (mut whole, mut piece) = (Vec::new(), Vec::new());
                    while lines.rest(most, &mut piece).unwrap() == Rest::GoesOn {
                        whole.extend_from_slice(&piece);
                    }
                    whole.extend_from_slice(&piece);
                    // Half a unit at the end makes no line end with the half before it.
                    let is_even = first.len().is_multiple_of(encoding.newline().len());
                    let bare = first.strip_suffix(encoding.newline()).filter(|_| is_even).unwrap_or(first);
                    prop_assert_eq!(&whole, bare);
                    let left = lines.count_ahead().unwrap();
                    prop_assert!(left.is_all);
                    prop_assert_eq!(left.lines, to_u64(rest.len() - 1));
                } else {
                    prop_assert!(lines.take(most, &mut line).unwrap() == Taken::Nothing);
                }
            }
            Skipped::Late { .. } => prop_assert!(false, "late"),
        }
    }
}

#[test]
fn passing_over_lines_for_too_long_leaves_a_place_to_go_on_from() {
    let file = file_of(&b"line\n".repeat(1_000));
    let (mut at, mut noted, mut rounds) = ((0, 0), Vec::new(), 0);
    loop {
        let mut lines = Lines::in_chunks(&file, Encoding::UTF8, at.1, 64);
        if let Skipped::There = lines.skip(at.0, 900, Duration::ZERO, &mut noted).unwrap() {
            assert_eq!(lines.position(), 4_500);
            break;
        }
        let last = *noted.last().unwrap();
        assert!(last > at && last.1 == last.0 * 5, "{last:?}");
        at = last;
        rounds += 1;
    }
    assert!(rounds > 10);
}

#[test]
fn a_hole_is_passed_over_and_hides_no_line() {
    use std::io::{Seek as _, SeekFrom};
    let mut file = file_of(b"one\n");
    for gib in [1_u64, 2, 4] {
        file.seek(SeekFrom::Start(gib << 30)).unwrap();
        file.write_all(b"x\ny\n").unwrap();
    }
    file.set_len(5 << 30).unwrap();
    let began = Instant::now();
    let mut lines = Lines::new(&file, Encoding::UTF8, 0);
    assert!(matches!(lines.skip(0, 6, FOREVER, &mut Vec::new()).unwrap(), Skipped::There));
    assert_eq!(lines.position(), (4 << 30) + 2);
    let left = lines.count_ahead().unwrap();
    assert_eq!((left.lines, left.is_all), (2, true));
    let found = Lines::new(&file, Encoding::UTF8, 0).skip(0, 100, FOREVER, &mut Vec::new()).unwrap();
    assert!(matches!(found, Skipped::Ended { lines: 8 }));
    assert!(began.elapsed() < Duration::from_secs(2));
}

//! What an edit that missed is told.

use super::super::*;

fn told(content: &str, old: &str) -> String {
    replace(content.as_bytes(), old, "something else", false).unwrap_err().to_string()
}

const CODE: &str = "fn one() {\n    call(1);\n    done();\n}\n\nfn two() {\n\tcall(2);\n\tdone();\n}\n";

#[test]
fn a_block_is_answered_with_the_place_most_like_it_and_the_first_difference() {
    assert_eq!(
        told(CODE, "fn one() {\n    call(7);\n    done();\n}"),
        "`old` was not found. Most like it:\n     1\tfn one() {\n     2\t    call(1);\n     3\t    done();\n     4\t}\n\
         The first difference is in line 2:\n  file:     call(1);\n  old:      call(7);"
    );
}

#[test]
fn tabs_and_blanks_are_told_apart() {
    let told = told(CODE, "fn two() {\n    call(2);\n    done();\n}");
    assert!(told.contains("It would match but for blanks"), "{told}");
    assert!(told.contains("The line is indented with 1 tab in the file, with 4 spaces in `old`."), "{told}");
    assert!(
        told.ends_with("The first difference is in line 7:\n  file: \\tcall(2);\n  old:  ····call(2);"),
        "{told}"
    );
}

#[test]
fn line_numbers_copied_from_a_page_are_noticed() {
    let told = told(CODE, "     2\t    call(1);\n     3\t    done();");
    assert!(told.starts_with("`old` was not found. It has the line numbers of read_file"), "{told}");
    // A table of numbers is not a page.
    let other = super::super::replace(b"a\n", "1\tx", "y", false).unwrap_err().to_string();
    assert!(!other.contains("line numbers of"), "{other}");
}

#[test]
fn look_alikes_are_named() {
    for (file, old, hint) in [
        ("let a\u{a0}= 1;\n", "let a = 1;", "the file has U+00A0 (a no-break space) where `old` has U+0020"),
        ("say \u{201c}hi\u{201d}\n", "say \"hi\"", "the file has U+201C where `old` has U+0022"),
        ("it\u{2019}s\n", "it's", "the file has U+2019 where `old` has U+0027"),
        ("cafe\u{301} au lait\n", "caf\u{e9} au", "the file has U+0065 where `old` has U+00E9"),
        ("caf\u{e9} au lait\n", "cafe\u{301} au", "the file has U+00E9 where `old` has U+0065"),
        ("a \u{2013} b\n", "a - b", "the file has U+2013 where `old` has U+002D"),
        ("zero\u{200b}width\n", "zerowidth", "the file has U+200B (a character of no width)"),
    ] {
        let told = told(file, old);
        assert!(told.contains(hint), "{file:?}: {told}");
    }
}

#[test]
fn several_matches_are_shown_with_their_lines() {
    let content: String = (1..=8).map(|n| format!("row {n}: same\n")).collect();
    let told = told(&content, "same");
    assert!(told.starts_with("`old` was found 8 times; give more of the lines"), "{told}");
    assert!(told.ends_with("     4\trow 4: same\n     5\trow 5: same\n… and 3 more"), "{told}");
    let told = self::told("a\r\nb\r\na\r\nb\r\n", "a\nb");
    assert!(told.ends_with(":\n     1\ta\n     3\ta"), "{told}");
}

#[test]
fn one_line_is_answered_with_the_lines_most_like_it() {
    let told = told(CODE, "cal(2);");
    assert!(told.starts_with("`old` was not found. Nearest lines:\n     7\t\tcall(2);"), "{told}");
    assert_eq!(self::told(CODE, "zzzz qqqq"), "`old` was not found.");
    // The same in a file of one long line, without the whole of it.
    let told = self::told(&"abc ".repeat(100_000), "abd abd abd");
    assert!(told.len() < 600, "{}", told.len());
}

#[test]
fn a_difference_far_down_is_shown_with_the_lines_around_it() {
    let content: String = (1..=200_000).map(|n| format!("statement number {n};\n")).collect();
    let old: String = (190_001..=190_020).map(|n| format!("statement number {n};\n")).collect();
    let told = told(&content, &old.replace("number 190015", "numer 190015"));
    assert!(
        told.starts_with(
            "`old` was not found. Most like it:\n190012\tstatement number 190012;\n190013\tstatement number 190013;"
        ),
        "{told}"
    );
    assert!(
        told.ends_with(
            "The first difference is in line 190015:\n  file: statement number 190015;\n  old:  statement numer 190015;"
        ),
        "{told}"
    );
}

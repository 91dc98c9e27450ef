//! How large a file may be. Functions are clippy's (`too_many_lines`, threshold in `.clippy.toml`).

use crate::tree::{none_of, rust};

/// Lines at which a file should be split.
const ASK_AT_LINES: usize = 500;
/// Lines at which it must be.
const FAIL_AT_LINES: usize = 800;

#[test]
fn no_file_is_too_large() {
    let mut too_large = Vec::new();
    for file in rust() {
        let lines = file.text.lines().count();
        if lines > FAIL_AT_LINES {
            too_large.push(format!("{} has {lines} lines", file.path));
        } else if lines > ASK_AT_LINES {
            println!("split soon: {} has {lines} lines", file.path);
        }
    }
    none_of("files over 800 lines", &too_large);
}

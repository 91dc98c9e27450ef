//! How much two lines have in common.

/// How alike two lines are, in thousandths: the share of byte pairs they have in common. Long lines count by
/// their start.
pub fn likeness(a: &[u8], b: &[u8]) -> usize {
    const COMPARED_BYTES: usize = 160;
    let pairs = |text: &[u8]| -> Vec<[u8; 2]> {
        let text = &text[..text.len().min(COMPARED_BYTES)];
        let mut pairs: Vec<[u8; 2]> = text
            .windows(2)
            .map(|pair| [pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()])
            .collect();
        pairs.sort_unstable();
        pairs
    };
    if a == b {
        return 1_000;
    }
    let (a, b) = (pairs(a), pairs(b));
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    2_000 * common / (a.len() + b.len())
}

//! Sparse maps.

use super::error::Fault;
use super::member::Segment;

/// Most segments of one file.
pub const SEGMENTS_MAX: usize = 1 << 20;

/// Checks a map of (offset, length): in order, apart, inside the file, and
/// holding exactly `stored` bytes. Empty segments, which mark the end, go.
pub fn checked(
    map: impl IntoIterator<Item = (u64, u64)>,
    real_size: u64,
    stored: u64,
) -> Result<Vec<Segment>, Fault> {
    let mut segments: Vec<Segment> = Vec::new();
    let (mut at, mut total) = (0u64, 0u64);
    for (offset, length) in map {
        let end = offset.checked_add(length).ok_or(Fault::Sparse)?;
        if offset < at || end > real_size {
            return Err(Fault::Sparse);
        }
        total = total.checked_add(length).ok_or(Fault::Sparse)?;
        at = end;
        if length == 0 {
            continue;
        }
        match segments.last_mut() {
            Some(last) if last.offset.checked_add(last.length) == Some(offset) => {
                last.length = last.length.saturating_add(length);
            }
            _ => segments.push(Segment { offset, length }),
        }
    }
    if total != stored || i64::try_from(real_size).is_err() {
        return Err(Fault::Sparse);
    }
    Ok(segments)
}

/// Pairs of a flat list of numbers.
pub fn pairs(numbers: &[u64]) -> Result<Vec<(u64, u64)>, Fault> {
    if numbers.len().checked_rem(2) != Some(0) {
        return Err(Fault::Sparse);
    }
    let pair = |pair: &[u64]| match pair {
        [offset, length] => Ok((*offset, *length)),
        _ => Err(Fault::Sparse),
    };
    numbers.chunks(2).map(pair).collect()
}

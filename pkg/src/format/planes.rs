//! Byte planes: how fixed-size records lie in a metadata block.
//!
//! A block of `n` records of `w` bytes holds byte 0 of every record, then
//! byte 1 of every record, and so on: byte `b` of record `s` is at `b * n + s`.
//! Columns of equal or slowly changing values compress to almost nothing, and
//! one record is read without undoing anything.

/// Record `slot` of a block of `count` records of `W` bytes; `None` outside.
#[must_use]
pub fn gather<const W: usize>(block: &[u8], count: usize, slot: usize) -> Option<[u8; W]> {
    if slot >= count {
        return None;
    }
    let mut record = [0; W];
    let mut planes = block.get(slot..)?.iter().step_by(count);
    for byte in &mut record {
        *byte = *planes.next()?;
    }
    Some(record)
}

/// Appends `records` to `out` as byte planes.
pub fn scatter<const W: usize>(records: &[[u8; W]], out: &mut Vec<u8>) {
    out.reserve(records.len().saturating_mul(W));
    for plane in 0..W {
        out.extend(records.iter().filter_map(|record| record.get(plane)));
    }
}

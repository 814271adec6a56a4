//! Numbers in headers.

/// A header field: octal digits with blanks around them, ended by blank or
/// NUL, or base-256 (GNU: two's complement behind the top bit). An empty field
/// is 0. `None` when it is neither, or beyond 64 bits.
pub fn field(bytes: &[u8]) -> Option<i64> {
    match bytes.first() {
        Some(first) if first & 0x80 != 0 => base_256(bytes),
        _ => octal(bytes),
    }
}

fn octal(bytes: &[u8]) -> Option<i64> {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let digits = text.trim_ascii();
    let mut value = 0i64;
    for digit in digits {
        if !(b'0'..=b'7').contains(digit) {
            return None;
        }
        value = value.checked_mul(8)?.checked_add(i64::from(digit.checked_sub(b'0')?))?;
    }
    Some(value)
}

fn base_256(bytes: &[u8]) -> Option<i64> {
    let (first, rest) = bytes.split_first()?;
    // Bit 6 of the first byte is the sign of the number behind the mark.
    let negative = first & 0x40 != 0;
    let head =
        if negative { i64::from(first | 0x80).checked_sub(256)? } else { i64::from(first & 0x7f) };
    rest.iter().try_fold(head, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)))
}

/// A decimal number without sign.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A pax time: decimal seconds, a sign and a fraction allowed; digits beyond
/// nanoseconds are cut toward the past.
pub fn time(bytes: &[u8]) -> Option<(i64, u32)> {
    let (negative, digits) = match bytes.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, bytes),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default();
    let fraction = parts.next().unwrap_or_default();
    let seconds = decimal(whole)?;
    let mut nanoseconds = 0u32;
    let mut cut = false;
    for (place, digit) in fraction.iter().enumerate() {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        if place < 9 {
            nanoseconds = nanoseconds.checked_mul(10)?.checked_add(u32::from(digit))?;
        } else {
            cut |= digit != 0;
        }
    }
    for _ in fraction.len()..9 {
        nanoseconds = nanoseconds.checked_mul(10)?;
    }
    if !negative {
        return Some((i64::try_from(seconds).ok()?, nanoseconds));
    }
    let nanoseconds = nanoseconds.checked_add(u32::from(cut))?;
    let seconds = 0i64.checked_sub_unsigned(seconds)?;
    match nanoseconds {
        0 => Some((seconds, 0)),
        _ => Some((seconds.checked_sub(1)?, 1_000_000_000u32.checked_sub(nanoseconds)?)),
    }
}

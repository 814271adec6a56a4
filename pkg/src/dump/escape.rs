//! Escapes of a field, as `composefs-info` makes them and `mkcomposefs` reads them.

/// Which characters are escaped beside backslash, space and what does not print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// None.
    Plain,
    /// A field that is nothing but `-`, which would read as unset.
    LoneDash,
    /// `=`, which separates an attribute's name from its value.
    Equal,
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends the escaped form of `bytes` to `out`.
pub fn escape(bytes: &[u8], how: Escape, out: &mut Vec<u8>) {
    let lone_dash = how == Escape::LoneDash && bytes == b"-";
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'=' if how != Escape::Equal => out.push(b'='),
            b'-' if lone_dash => hex(*byte, out),
            b'=' => hex(*byte, out),
            byte if byte.is_ascii_graphic() => out.push(*byte),
            byte => hex(*byte, out),
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
}

/// The bytes behind an escaped field; `None` for an escape that is not known
/// or not complete.
pub fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let high = hex_digit(rest.next()?)?;
                (high << 4) | hex_digit(rest.next()?)?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

/// The value of a hexadecimal digit.
pub fn hex_digit(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Appends the bytes in lower-case hexadecimal.
pub fn hex_text(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    for byte in bytes {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
}

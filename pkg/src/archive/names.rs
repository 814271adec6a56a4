//! Paths of members, and what `.wh.` names mean.

use super::error::Fault;

/// Components of a path relative to the root: no leading slash, no empty or
/// `.` component.
///
/// # Errors
/// [`Fault::Path`] for an empty path or one with NUL, [`Fault::Escapes`] when
/// it climbs above the root.
pub fn components(path: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    if path.is_empty() || path.contains(&0) {
        return Err(Fault::Path);
    }
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop().ok_or(Fault::Escapes)?;
            }
            name => parts.push(name.to_vec()),
        }
    }
    Ok(parts)
}

/// What the last component of a path means (OCI image-spec, "Whiteouts").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning<'a> {
    /// An object of this name.
    Plain,
    /// Hides this name in the layers below.
    Whiteout(&'a [u8]),
    /// Its directory hides everything below.
    Opaque,
    /// Bookkeeping of aufs: nothing.
    Ignored,
}

/// Meaning of a name.
///
/// # Errors
/// [`Fault::Whiteout`] for a whiteout of nothing, `.` or `..`.
pub fn meaning(name: &[u8]) -> Result<Meaning<'_>, Fault> {
    match name.strip_prefix(b".wh.") {
        None => Ok(Meaning::Plain),
        Some(b".wh..opq") => Ok(Meaning::Opaque),
        Some(b"" | b"." | b"..") => Err(Fault::Whiteout),
        Some(hidden) if hidden.starts_with(b".wh.") => Ok(Meaning::Ignored),
        Some(hidden) => Ok(Meaning::Whiteout(hidden)),
    }
}

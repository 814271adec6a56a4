//! Which members tell an image archive from a layer, by name alone.

use tar::EntryType;

use crate::source::members::parts;

/// What a member says about the archive it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Of an image archive beyond doubt: a blob under its digest, say.
    Telling,
    /// Could be of either.
    Possible,
    /// Not of an image archive.
    Foreign,
}

/// Digits of a sha256 digest.
const HEX: usize = 64;
/// Files of the folders that `docker save` once made, one a layer.
const OLD_FILES: [&[u8]; 2] = [b"VERSION", b"json"];

/// Judges a member. Names of layers in docker archives are up to the tool
/// that writes them, so anything that may be an archive or JSON is possible.
pub(super) fn of(name: &[u8], kind: EntryType) -> Shape {
    let parts: Vec<&[u8]> = parts(name).collect();
    let possible = |yes: bool| if yes { Shape::Possible } else { Shape::Foreign };
    match kind {
        EntryType::Directory => possible(parts.len() <= 2),
        EntryType::Regular | EntryType::Continuous | EntryType::Symlink | EntryType::Link => {
            match parts.as_slice() {
                [b"blobs", _, hex] if is_hex(hex) => Shape::Telling,
                [_, b"layer.tar"] => Shape::Telling,
                [file] if file.strip_suffix(b".tar").is_some_and(is_hex) => Shape::Telling,
                [_] if !matches!(kind, EntryType::Symlink | EntryType::Link) => Shape::Possible,
                [.., file] => possible(OLD_FILES.contains(file) || has_known_suffix(file)),
                [] => Shape::Possible,
            }
        }
        EntryType::XGlobalHeader => Shape::Possible,
        _ => Shape::Foreign,
    }
}

fn is_hex(name: &[u8]) -> bool {
    name.len() >= HEX && name.iter().all(u8::is_ascii_hexdigit)
}

fn has_known_suffix(name: &[u8]) -> bool {
    let mut words = name.rsplit(|byte| *byte == b'.');
    let last = words.next().unwrap_or_default();
    let before = words.next().unwrap_or_default();
    matches!(last, b"json" | b"tar" | b"tgz" | b"sha256") || before == b"tar"
}

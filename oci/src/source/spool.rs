//! What can be read only once, kept in a file without a name.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::decompress::detect;
use crate::error::OciError;
use crate::media_type::Compression;
use crate::source::error::SourceError;
use crate::source::stored::Stored;

/// Bytes of a tar header.
const BLOCK: u64 = 512;
/// Most bytes of an archive that begins with zeros, which mark its end: what
/// follows them is padding.
const EMPTY_ARCHIVE: u64 = 1 << 20;

/// Reads the start of a stream and refuses what cannot be an archive, before
/// it fills a disk: it must be compressed or begin with a tar header. What is
/// shorter than a header is left to the reader of archives.
pub(super) fn start_of(stream: &mut impl Read, path: &Path) -> Result<Vec<u8>, OciError> {
    let failed = || OciError::io("read", path);
    let mut start = Vec::new();
    stream.by_ref().take(BLOCK).read_to_end(&mut start).map_err(failed())?;
    let is_short = u64::try_from(start.len()).is_ok_and(|length| length < BLOCK);
    if is_short || detect(&start) != Compression::None || is_header(&start) {
        return Ok(start);
    }
    if start.iter().all(|byte| *byte == 0) {
        stream.by_ref().take(EMPTY_ARCHIVE).read_to_end(&mut start).map_err(failed())?;
        let is_short = u64::try_from(start.len()).is_ok_and(|length| length <= EMPTY_ARCHIVE);
        if is_short {
            return Ok(start);
        }
    }
    Err(SourceError::NotASource { path: path.into() }.into())
}

/// Whether a block has the checksum of a tar header: the sum of its bytes,
/// which old programs take as signed, the checksum's own read as blanks.
fn is_header(block: &[u8]) -> bool {
    let mut header = tar::Header::new_old();
    let bytes = header.as_mut_bytes();
    if bytes.len() != block.len() {
        return false;
    }
    bytes.copy_from_slice(block);
    let Ok(stated) = header.cksum().map(i64::from) else { return false };
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (place, byte) in block.iter().enumerate() {
        let byte = if (148..156).contains(&place) { b' ' } else { *byte };
        unsigned = unsigned.saturating_add(i64::from(byte));
        signed = signed.saturating_add(i64::from(byte.cast_signed()));
    }
    stated == unsigned || stated == signed
}

/// Copies a stream into an unlinked temporary file in `folder`. Its space is
/// free again when nothing refers to it any more, whatever happens to the
/// process. `broken` makes an error of what the stream reports.
pub(super) fn spool(
    stream: &mut impl Read,
    folder: &Path,
    broken: impl FnOnce(io::Error) -> OciError,
) -> Result<Stored, OciError> {
    let failed = || {
        |source: io::Error| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                SourceError::NoSpace { folder: folder.into(), source }.into()
            }
            _ => OciError::io("write a temporary file in", folder)(source),
        }
    };
    let mut file = tempfile::tempfile_in(folder).map_err(failed())?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Stored::whole(file, folder),
            Ok(count) => {
                file.write_all(buffer.get(..count).unwrap_or_default()).map_err(failed())?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

//! What can be read only once, kept in a file without a name.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::OciError;
use crate::source::stored::Stored;

/// Copies a stream into an unlinked temporary file in `folder`. Its space is
/// free again when nothing refers to it any more, whatever happens to the
/// process. `broken` makes an error of what the stream reports.
pub(super) fn spool(
    stream: &mut impl Read,
    folder: &Path,
    broken: impl FnOnce(io::Error) -> OciError,
) -> Result<Stored, OciError> {
    let failed = || OciError::io("write a temporary file in", folder);
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

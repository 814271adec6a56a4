//! The one place where an error of the stack becomes an errno.

use microfs::ReadError;
use rustix::io::Errno;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The stack could not answer.
    Read(ReadError),
    /// The answer itself is an errno; nothing is wrong with the image.
    Answer(Errno),
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Answer(errno)
    }
}

/// What a caller sees for an error of the stack.
pub(crate) fn errno(error: &ReadError) -> Errno {
    match error {
        // The kernel holds a number that this stack never gave out (a file handle of another image).
        ReadError::NoSuchNode(_) => Errno::STALE,
        ReadError::NotADirectory => Errno::NOTDIR,
        ReadError::IsADirectory => Errno::ISDIR,
        ReadError::NotASymlink | ReadError::NotARegularFile => Errno::INVAL,
        ReadError::Corrupt { .. }
        | ReadError::Codec { .. }
        | ReadError::Io { .. }
        | ReadError::LinkUnresolved { .. }
        | ReadError::Limit { .. }
        | ReadError::MissingBlob { .. } => Errno::IO,
    }
}

/// Whether the error means that the image or its storage is not in order, so
/// that somebody should be told more than an errno.
pub(crate) fn is_damage(error: &ReadError) -> bool {
    errno(error) == Errno::IO
}

/// The error with everything that caused it, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests;

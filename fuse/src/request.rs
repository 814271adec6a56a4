//! A request of the kernel, taken apart.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::abi::InHeader;

/// A request: its header, and what follows it.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) header: &'a InHeader,
    body: &'a [u8],
}

impl<'a> Incoming<'a> {
    /// The request in a message; `None` when the message is shorter than it
    /// says. `bytes` must be aligned to 8 bytes.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = InHeader::ref_from_prefix(bytes).ok()?;
        let length = usize::try_from(header.len).ok()?;
        let body = body.get(..length.checked_sub(size_of::<InHeader>())?)?;
        Some(Self { header, body })
    }

    /// The fixed part of the body; `None` when the body is too short.
    pub(crate) fn arguments<T: FromBytes + KnownLayout + Immutable>(&self) -> Option<T> {
        T::read_from_prefix(self.body).ok().map(|(arguments, _)| arguments)
    }

    /// The name after `skip` bytes of the body, without its NUL.
    pub(crate) fn name(&self, skip: usize) -> Option<&'a [u8]> {
        let bytes = self.body.get(skip..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        bytes.get(..end)
    }
}

#[cfg(test)]
mod tests;

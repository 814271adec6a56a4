//! Extended attributes: interned sets, their entries and names.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A set of attributes as stored: a run of entries.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawXattrSet {
    /// First entry.
    pub first: U64,
    /// Number of entries, at least 1.
    pub count: U32,
}

/// One attribute of a set as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawXattrEntry {
    /// Number of its name; increasing within a set.
    pub name: U32,
    /// Length of its value in bytes, at most 65,536.
    pub length: U32,
    /// Heap position of its value.
    pub value: U64,
}

/// A distinct attribute name as stored; names are sorted by bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawXattrName {
    /// Heap position of the full name, prefix included.
    pub position: U64,
    /// Its length in bytes, 1 to 255.
    pub length: U32,
}

const _: () = assert!(size_of::<RawXattrSet>() == 12);
const _: () = assert!(size_of::<RawXattrEntry>() == 16);
const _: () = assert!(size_of::<RawXattrName>() == 12);

/// Bits of the superblock's xattr field: what occurs in the layer at all.
pub mod known {
    /// Any attribute.
    pub const ANY: u32 = 1;
    /// `system.posix_acl_access`.
    pub const ACL_ACCESS: u32 = 1 << 1;
    /// `system.posix_acl_default`.
    pub const ACL_DEFAULT: u32 = 1 << 2;
    /// A name in `user.`.
    pub const USER: u32 = 1 << 3;
    /// A name in `trusted.`.
    pub const TRUSTED: u32 = 1 << 4;
    /// A name in `security.`.
    pub const SECURITY: u32 = 1 << 5;
    /// A name in `system.` that is no POSIX ACL.
    pub const SYSTEM: u32 = 1 << 6;
    /// A name with another prefix.
    pub const OTHER: u32 = 1 << 7;

    /// The bits that an attribute name sets.
    #[must_use]
    pub fn of(name: &[u8]) -> u32 {
        let prefix = match name {
            b"system.posix_acl_access" => ACL_ACCESS,
            b"system.posix_acl_default" => ACL_DEFAULT,
            _ if name.starts_with(b"user.") => USER,
            _ if name.starts_with(b"trusted.") => TRUSTED,
            _ if name.starts_with(b"security.") => SECURITY,
            _ if name.starts_with(b"system.") => SYSTEM,
            _ => OTHER,
        };
        ANY | prefix
    }
}

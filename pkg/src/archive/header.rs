//! One 512-byte header block.

use super::error::Fault;
use super::number;

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// Which dialect a header is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// Before POSIX: no magic.
    V7,
    /// POSIX, with a name prefix of 155 bytes.
    Ustar,
    /// star: POSIX magic, a prefix of 131 bytes, `tar` at the end.
    Star,
    /// GNU: no name prefix.
    Gnu,
}

/// Old GNU sparse fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GnuSparse {
    /// (offset, length) of the first runs of data.
    pub entries: Vec<(u64, u64)>,
    /// Whether blocks with more of them follow.
    pub more: bool,
    /// Length of the file with its holes.
    pub real_size: u64,
}

/// A header whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    block: &'a [u8; BLOCK],
    dialect: Dialect,
}

impl<'a> Header<'a> {
    /// Checks a block that is not all zeros.
    pub fn parse(block: &'a [u8; BLOCK]) -> Result<Self, Fault> {
        let header = Self { block, dialect: Dialect::V7 };
        let recorded = number::field(header.bytes(148, 8)).ok_or(Fault::Checksum)?;
        let around = header.bytes(0, 148).iter().chain(header.bytes(156, 356));
        // The checksum field itself counts as blanks. Some old programs
        // added up signed bytes.
        let blanks = 8i64.saturating_mul(32);
        let (mut unsigned, mut signed) = (blanks, blanks);
        for byte in around {
            unsigned = unsigned.saturating_add(i64::from(*byte));
            signed = signed.saturating_add(i64::from(byte.cast_signed()));
        }
        if recorded != unsigned && recorded != signed {
            return Err(Fault::Checksum);
        }
        let dialect = match (header.bytes(257, 8), header.bytes(508, 4)) {
            (b"ustar  \0", _) => Dialect::Gnu,
            ([b'u', b's', b't', b'a', b'r', 0, ..], b"tar\0") => Dialect::Star,
            ([b'u', b's', b't', b'a', b'r', 0, ..], _) => Dialect::Ustar,
            _ => Dialect::V7,
        };
        Ok(Self { block, dialect })
    }

    fn bytes(&self, start: usize, length: usize) -> &'a [u8] {
        self.block.get(start..start.saturating_add(length)).unwrap_or_default()
    }

    fn text(&self, start: usize, length: usize) -> &'a [u8] {
        let field = self.bytes(start, length);
        field.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The type flag.
    pub fn type_flag(&self) -> u8 {
        self.bytes(156, 1).first().copied().unwrap_or(0)
    }

    /// The path, prefix included.
    pub fn path(&self) -> Vec<u8> {
        let name = self.text(0, 100);
        let prefix = match self.dialect {
            Dialect::Ustar => self.text(345, 155),
            Dialect::Star => self.text(345, 131),
            Dialect::V7 | Dialect::Gnu => &[],
        };
        if prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, name].join(&b'/')
    }

    /// The link target.
    pub fn link(&self) -> Vec<u8> {
        self.text(157, 100).to_vec()
    }

    fn unsigned(&self, start: usize, length: usize, field: &'static str) -> Result<u64, Fault> {
        let value = number::field(self.bytes(start, length));
        value.and_then(|value| u64::try_from(value).ok()).ok_or(Fault::Number { field })
    }

    fn narrow(&self, start: usize, field: &'static str) -> Result<u32, Fault> {
        u32::try_from(self.unsigned(start, 8, field)?).map_err(|_| Fault::Number { field })
    }

    /// Permission bits; type bits that some writers add are dropped.
    pub fn permissions(&self) -> Result<u16, Fault> {
        let mode = number::field(self.bytes(100, 8)).ok_or(Fault::Number { field: "mode" })?;
        u16::try_from(mode & 0o7777).map_err(|_| Fault::Number { field: "mode" })
    }

    /// Owner.
    pub fn uid(&self) -> Result<u32, Fault> {
        self.narrow(108, "uid")
    }

    /// Group.
    pub fn gid(&self) -> Result<u32, Fault> {
        self.narrow(116, "gid")
    }

    /// Bytes of data, as the header says.
    pub fn size(&self) -> Result<u64, Fault> {
        self.unsigned(124, 12, "size")
    }

    /// Modification time in seconds.
    pub fn mtime(&self) -> Result<i64, Fault> {
        number::field(self.bytes(136, 12)).ok_or(Fault::Number { field: "mtime" })
    }

    /// Major and minor device number.
    pub fn device(&self) -> Result<(u32, u32), Fault> {
        if self.dialect == Dialect::V7 {
            return Ok((0, 0));
        }
        Ok((self.narrow(329, "devmajor")?, self.narrow(337, "devminor")?))
    }

    /// What an old GNU header says about holes.
    pub fn gnu_sparse(&self) -> Result<GnuSparse, Fault> {
        let entries = sparse_entries(self.bytes(386, 96))?;
        let more = self.bytes(482, 1).first().is_some_and(|flag| *flag != 0 && *flag != b'0');
        let real_size = self.unsigned(483, 12, "realsize")?;
        Ok(GnuSparse { entries, more, real_size })
    }
}

/// (offset, length) pairs of 12-byte fields, up to the first empty one.
pub fn sparse_entries(bytes: &[u8]) -> Result<Vec<(u64, u64)>, Fault> {
    let mut entries = Vec::new();
    for pair in bytes.chunks_exact(24) {
        let (offset, length) = pair.split_at_checked(12).ok_or(Fault::Sparse)?;
        if offset.iter().all(|byte| *byte == 0 || *byte == b' ') {
            break;
        }
        let value = |bytes| number::field(bytes).and_then(|value| u64::try_from(value).ok());
        let pair = value(offset).zip(value(length)).ok_or(Fault::Sparse)?;
        entries.push(pair);
    }
    Ok(entries)
}

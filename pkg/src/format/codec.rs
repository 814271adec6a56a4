//! Codes of the compression methods.

/// How a block's bytes are stored. The number is the code in the block pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// As they are: code 0.
    Raw,
    /// One zstd frame with content size and checksum, no dictionary (RFC 8878): code 1.
    Zstd,
    /// One LZ4 block without size prefix: code 2.
    Lz4,
    /// One zlib stream (RFC 1950): code 3.
    Zlib,
    /// One xz stream: code 4.
    Xz,
    /// One LZO1X block: code 5.
    Lzo,
}

impl Codec {
    /// Every codec, in the order of the codes.
    pub const ALL: [Self; 6] = [Self::Raw, Self::Zstd, Self::Lz4, Self::Zlib, Self::Xz, Self::Lzo];

    /// The codec of a code, if it is known.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.code() == code)
    }

    /// The code in a block pointer.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
            Self::Lz4 => 2,
            Self::Zlib => 3,
            Self::Xz => 4,
            Self::Lzo => 5,
        }
    }

    /// Its bit in the superblock's codec masks.
    #[must_use]
    pub fn bit(self) -> u32 {
        1u32.checked_shl(u32::from(self.code())).unwrap_or(0)
    }

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Zlib => "zlib",
            Self::Xz => "xz",
            Self::Lzo => "lzo",
        }
    }
}

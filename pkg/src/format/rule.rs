//! The rules that a reader holds a blob to, and the error of a broken one.

use std::fmt;

use thiserror::Error;

macro_rules! rules {
    ($($name:ident = $number:literal, $text:literal;)+) => {
        /// A rule of FORMAT.md, chapter "What a reader must reject".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(
                #[doc = concat!("R", stringify!($number), ": ", $text, ".")]
                $name,
            )+
        }

        impl Rule {
            /// Every rule, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The number in FORMAT.md.
            #[must_use]
            pub fn number(self) -> u32 {
                match self { $(Self::$name => $number),+ }
            }

            /// What the rule asks, in a phrase.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

rules! {
    Length = 1, "the blob is a multiple of 4096 bytes long and at least 8192";
    Magic = 2, "the superblock starts with its magic bytes";
    Version = 3, "the format version is the one this reader knows";
    Feature = 4, "no unknown incompatible feature bit is set";
    SuperblockDigest = 5, "the superblock's digest is that of its bytes";
    RecordedLength = 6, "the recorded blob length is the blob's length";
    Geometry = 7, "block sizes, page size and digest algorithm are in range";
    Parts = 8, "the parts lie in order, inside the blob, and hold what is counted";
    Sections = 9, "the sections fill the metadata blocks that the superblock counts";
    TailDigest = 10, "the digest over page digests and blob table is right";
    PageDigest = 11, "a page of block pointers has its recorded digest";
    BlockPointer = 12, "a block pointer lies in its part, with known codec and lengths in range";
    BlockDigest = 13, "a block has its recorded digest";
    BlockData = 14, "a block decodes to exactly its plain length";
    MetadataBlock = 15, "a metadata block is as long as its records";
    Inode = 16, "an inode has a known type, known flags and values in range";
    InodeIndex = 17, "an inode index is below the number of inodes";
    Root = 18, "inode 0 is a directory, its own parent and without a name";
    DentryBlock = 19, "a dentry block's counts and name ends fit its length";
    DentryIndex = 20, "the dentry index is increasing and agrees with the blocks";
    Name = 21, "a name is 1 to 255 bytes, without slash and NUL, and not . or ..";
    NameOrder = 22, "a directory's names are sorted by bytes, without repetition";
    DentryKind = 23, "a dentry's kind is known and that of its inode";
    ExtentOrder = 24, "extents start at 0, increase, lie inside the file and are merged";
    ExtentBlocks = 25, "an extent's blocks exist and hold the bytes it needs";
    Xattr = 26, "xattr sets, entries and names are in range, sorted and distinct";
    Heap = 27, "a heap string lies inside the heap and straddles no block it could fit in";
    HardLinks = 28, "the hard-link table lists every name of every inode with several";
    Implied = 29, "the implied-directory table lists the directories flagged so";
    BlobTable = 30, "a blob number is in the blob table, and the table is in range";
    BackReference = 31, "an inode's parent and first dentry lead back to it";
    Tree = 32, "the dentries form one tree in tree order, each used once";
    Totals = 33, "the superblock's totals are those of the image";
    Unaccounted = 34, "bytes that belong to no part or block are zero";
    Prologue = 35, "the prologue agrees with the superblock";
    Frame = 36, "a zstd block is one frame with content size, checksum and a window up to 1 MiB";
}

/// Where in a blob a rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The blob as a whole.
    Blob,
    /// The prologue.
    Prologue,
    /// The superblock, at this byte of it.
    Superblock(u32),
    /// The page-digest or blob table.
    Tail,
    /// A page of block pointers, by number.
    Page(u64),
    /// A block, by number in the pointer table.
    Block(u64),
    /// An inode, by index.
    Inode(u32),
    /// A dentry, by position.
    Dentry(u64),
    /// An extent record, by position.
    Extent(u64),
    /// An xattr record, by position.
    Xattr(u64),
    /// A byte position in the heap.
    Heap(u64),
    /// A hard-link record, by position.
    HardLink(u64),
    /// An implied-directory record, by position.
    Implied(u64),
    /// A byte offset in the blob.
    Offset(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blob => write!(f, "blob"),
            Self::Prologue => write!(f, "prologue"),
            Self::Superblock(at) => write!(f, "superblock byte {at}"),
            Self::Tail => write!(f, "page-digest and blob table"),
            Self::Page(n) => write!(f, "block-pointer page {n}"),
            Self::Block(n) => write!(f, "block {n}"),
            Self::Inode(n) => write!(f, "inode {n}"),
            Self::Dentry(n) => write!(f, "dentry {n}"),
            Self::Extent(n) => write!(f, "extent {n}"),
            Self::Xattr(n) => write!(f, "xattr record {n}"),
            Self::Heap(n) => write!(f, "heap byte {n}"),
            Self::HardLink(n) => write!(f, "hard-link record {n}"),
            Self::Implied(n) => write!(f, "implied-directory record {n}"),
            Self::Offset(n) => write!(f, "byte {n}"),
        }
    }
}

/// A rule is broken somewhere in a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{place}: rule R{} is broken: {}", .rule.number(), .rule.text())]
pub struct FormatError {
    /// The rule.
    pub rule: Rule,
    /// Where.
    pub place: Place,
}

impl FormatError {
    /// An error for `rule` at `place`.
    #[must_use]
    pub fn new(rule: Rule, place: Place) -> Self {
        Self { rule, place }
    }
}

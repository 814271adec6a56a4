//! A layer with something of everything, to be broken.

use microfs::FileType;
use microfs::format::extent::RawExtent;
use microfs::format::inode::{RawInode, flags};
use microfs::format::section::Section;
use microfs::format::superblock::RawSuperblock;
use microfs::tree::NodeId;
use microfs::writer::Options;
use zerocopy::FromBytes;

use crate::support::blob::Blob;
use crate::support::{Builder, metadata, noise, plain_options};

/// Inodes of the sample that tests look for.
pub struct Sample {
    pub blob: Blob,
    pub files: Vec<u64>,
    pub symlink: u64,
    pub linked: u64,
    pub implied: u64,
    pub sparse: u64,
    pub packed: u64,
}

/// A layer with something of everything, several blocks in most sections.
pub fn build(options: &Options) -> Vec<u8> {
    let plain = metadata(0o644, 1, 2, 3, 4);
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let many = builder.directory(NodeId::ROOT, b"many", metadata(0o755, 0, 0, 0, 0));
    for number in 0..400 {
        builder.file(many, format!("a long name of a file {number:04}").as_bytes(), plain, b"");
    }
    let one = builder.xattrs(plain, &[("user.a", b"1"), ("user.b", b"22"), ("trusted.c", b"")]);
    let two = builder.xattrs(plain, &[("user.b", b"22"), ("security.d", &[7; 5000])]);
    builder.file(NodeId::ROOT, b"with-xattrs", one, b"small content");
    builder.file(NodeId::ROOT, b"with-others", two, b"other small content");
    let linked = builder.file(NodeId::ROOT, b"linked", plain, &noise(2, 9_000));
    builder.link(many, b"zz linked again", linked);
    let inner = builder.flagged(NodeId::ROOT, b"opaque", true, false);
    builder.link(inner, b"linked a third time", linked);
    builder.flagged(inner, b"implied", false, true);
    builder.whiteout(inner, b"gone");
    builder.link_below(inner, b"from-below", b"some/lower/file");
    builder.symlink(NodeId::ROOT, b"symlink", plain, b"../target of a link");
    let data = vec![(8192, noise(3, 5000)), (50_000, noise(4, 100)), (60_000, noise(5, 4096))];
    builder.sparse(NodeId::ROOT, b"sparse", plain, 100_000, data);
    builder.device(NodeId::ROOT, b"device", plain, false, 5, 6);
    builder.fifo(NodeId::ROOT, b"fifo", plain);
    builder.socket(NodeId::ROOT, b"socket", plain);
    builder.device(NodeId::ROOT, b"block", plain, true, 5, 6);
    builder.build(options)
}

pub fn sample() -> Sample {
    let mut blob = Blob::new(build(&plain_options()));
    let mut files = Vec::new();
    let mut sample = (0, 0, 0, 0, 0);
    for number in 0..blob.count(Section::Inodes) {
        let raw = RawInode::read_from_bytes(&blob.record::<72>(Section::Inodes, number)).unwrap();
        let is = |file_type: FileType| raw.mode.get() & 0o170_000 == file_type.mode_bits();
        if is(FileType::Regular) {
            files.push(number);
            match raw.size.get() {
                9_000 => sample.1 = number,
                100_000 => sample.3 = number,
                13 => sample.4 = number,
                _ => {}
            }
        }
        if is(FileType::Symlink) {
            sample.0 = number;
        }
        if raw.flags.get() & flags::IMPLIED != 0 {
            sample.2 = number;
        }
    }
    let (symlink, linked, implied, sparse, packed) = sample;
    Sample { blob, files, symlink, linked, implied, sparse, packed }
}

impl Sample {
    pub fn inode(mut self, number: u64, change: impl FnOnce(&mut RawInode)) -> Vec<u8> {
        self.blob.change::<72, RawInode>(Section::Inodes, number, change);
        self.blob.sign()
    }

    pub fn extent(mut self, number: u64, change: impl FnOnce(&mut RawExtent)) -> Vec<u8> {
        self.blob.change::<24, RawExtent>(Section::Extents, number, change);
        self.blob.sign()
    }

    /// Changes the superblock and signs it.
    pub fn superblock(mut self, change: impl FnOnce(&mut RawSuperblock)) -> Vec<u8> {
        change(self.blob.raw_superblock());
        self.blob.sign_superblock()
    }

    /// Where dentry `slot` of dentry block `block` keeps byte `plane`.
    pub fn dentry_byte(&mut self, block: u64, slot: usize, plane: usize) -> &mut u8 {
        let number = self.blob.section_block(Section::Dentries, block);
        let bytes = self.blob.block(number);
        let count = usize::try_from(u32::from_le_bytes(bytes[..4].try_into().unwrap())).unwrap();
        &mut bytes[4 + plane * count + slot]
    }

    /// First position of a name in a dentry block, and the block.
    pub fn find_name(&mut self, name: &[u8]) -> (u64, usize) {
        for block in 0..self.blob.superblock.sections.span(Section::Dentries).blocks {
            let number = self.blob.section_block(Section::Dentries, block);
            let bytes = self.blob.block(number);
            if let Some(at) = bytes.windows(name.len()).position(|part| part == name) {
                return (number, at);
            }
        }
        panic!("no such name");
    }
}

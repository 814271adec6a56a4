//! A blob to be broken: its records can be changed and its digests made right
//! again, so that nothing but the broken rule is wrong.

use microfs::format::block_pointer::{POINTER_SIZE, RawBlockPointer};
use microfs::format::section::Section;
use microfs::format::superblock::{RawSuperblock, Superblock};
use microfs::format::{DigestAlgorithm, SUPERBLOCK_SIZE, index64, planes, wide};
use zerocopy::{FromBytes, IntoBytes};

pub struct Blob {
    pub bytes: Vec<u8>,
    pub superblock: Superblock,
}

impl Blob {
    pub fn new(bytes: Vec<u8>) -> Self {
        let start = bytes.len() - SUPERBLOCK_SIZE;
        let superblock = Superblock::parse(&bytes[start..], wide(bytes.len())).unwrap();
        Self { bytes, superblock }
    }

    fn pointer_at(&self, block: u64) -> usize {
        index64(self.superblock.pointers_offset) + index64(block) * POINTER_SIZE
    }

    pub fn pointer(&mut self, block: u64) -> &mut RawBlockPointer {
        let at = self.pointer_at(block);
        RawBlockPointer::mut_from_bytes(&mut self.bytes[at..at + POINTER_SIZE]).unwrap()
    }

    /// Stored bytes of a block.
    pub fn block(&mut self, block: u64) -> &mut [u8] {
        let pointer = self.pointer(block);
        let start = index64(pointer.offset.get());
        let length = usize::try_from(pointer.stored.get() & 0xff_ffff).unwrap();
        &mut self.bytes[start..start + length]
    }

    /// Number in the pointer table of a section's block.
    pub fn section_block(&self, section: Section, block: u64) -> u64 {
        self.superblock.content_blocks + self.superblock.sections.span(section).first_block + block
    }

    pub fn count(&self, section: Section) -> u64 {
        self.superblock.sections.span(section).count
    }

    /// A record of a section whose blocks are raw.
    pub fn record<const W: usize>(&mut self, section: Section, number: u64) -> [u8; W] {
        let at = self.superblock.sections.locate(section, number).unwrap();
        let block = self.superblock.content_blocks + at.block;
        planes::gather::<W>(self.block(block), at.records, at.slot).unwrap()
    }

    pub fn put<const W: usize>(&mut self, section: Section, number: u64, record: &[u8]) {
        let at = self.superblock.sections.locate(section, number).unwrap();
        let block = self.superblock.content_blocks + at.block;
        let bytes = self.block(block);
        for (plane, byte) in record.iter().enumerate() {
            bytes[plane * at.records + at.slot] = *byte;
        }
        assert_eq!(record.len(), W);
    }

    /// Changes a record.
    pub fn change<const W: usize, R>(
        &mut self,
        section: Section,
        number: u64,
        change: impl FnOnce(&mut R),
    ) where
        R: FromBytes + IntoBytes + zerocopy::Immutable + zerocopy::KnownLayout,
    {
        let record = self.record::<W>(section, number);
        let mut raw = R::read_from_bytes(&record).unwrap();
        change(&mut raw);
        self.put::<W>(section, number, raw.as_bytes());
    }

    pub fn raw_superblock(&mut self) -> &mut RawSuperblock {
        let start = self.bytes.len() - SUPERBLOCK_SIZE;
        RawSuperblock::mut_from_bytes(&mut self.bytes[start..]).unwrap()
    }

    pub fn sign_superblock(mut self) -> Vec<u8> {
        let start = self.bytes.len() - SUPERBLOCK_SIZE;
        let digested = &self.bytes[start..start + SUPERBLOCK_SIZE - 32];
        let digest = DigestAlgorithm::Blake3.digest(digested);
        self.raw_superblock().digest = digest;
        self.bytes
    }

    pub fn sign_tail(mut self) -> Vec<u8> {
        let start = index64(self.superblock.pages_offset);
        let blobs = usize::try_from(self.superblock.blob_count).unwrap() * 72;
        let end = index64(self.superblock.blobs_offset) + blobs;
        let digest = DigestAlgorithm::Blake3.digest(&self.bytes[start..end]);
        self.raw_superblock().tail_digest = digest;
        self.sign_superblock()
    }

    pub fn sign_pages(mut self) -> Vec<u8> {
        let blocks = self.superblock.block_count().unwrap();
        let table = self.pointer_at(0)..self.pointer_at(blocks);
        let page = POINTER_SIZE << self.superblock.page_log;
        let digests: Vec<u8> = self.bytes[table]
            .chunks(page)
            .flat_map(|page| DigestAlgorithm::Blake3.digest(page))
            .collect();
        let start = index64(self.superblock.pages_offset);
        self.bytes[start..start + digests.len()].copy_from_slice(&digests);
        self.sign_tail()
    }

    /// Makes every digest right.
    pub fn sign(mut self) -> Vec<u8> {
        for block in 0..self.superblock.block_count().unwrap() {
            let digest = DigestAlgorithm::Blake3.digest(self.block(block));
            self.pointer(block).digest = digest;
        }
        self.sign_pages()
    }
}

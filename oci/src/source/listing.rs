//! One pass over the headers of a tar archive.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};

use tar::{Archive, EntryType};

use crate::source::members::parts;
use crate::source::shape::{self, Shape};
use crate::source::stored::Stored;

/// Bytes of headers and of extended headers that are read of one archive. The
/// latter are held in memory one at a time.
const HEADER_BYTES: u64 = 128 << 20;

/// A member of an archive, as far as it can be of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// Plain data.
    File { offset: u64, size: u64 },
    /// A link; the target of a hard link is written with a slash in front.
    Link(Vec<u8>),
    /// Anything else.
    Other,
}

/// How the pass ended.
#[derive(Debug)]
pub(super) enum End {
    /// At the end of the archive.
    Complete,
    /// At a member that no image archive has.
    Foreign,
    /// At the limit of members.
    TooMany,
    /// At something unreadable.
    Failed(io::Error),
}

/// The members by normalised name; of several with one name the last counts.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) members: HashMap<Vec<u8>, Member>,
    pub(super) end: End,
    /// Some member is [`Shape::Telling`] and none [`Shape::Foreign`].
    telling: bool,
    foreign: bool,
}

impl Listing {
    /// Reads an archive from its start. At most `limit` members; with
    /// `until_foreign` only until it is clear that it is no image archive.
    pub(super) fn read(source: impl Read + Seek, limit: usize, until_foreign: bool) -> Self {
        let mut listing =
            Self { members: HashMap::new(), end: End::Complete, telling: false, foreign: false };
        let mut archive = Archive::new(Frugal { source, left: HEADER_BYTES });
        if let Err(error) = listing.collect(&mut archive, limit, until_foreign) {
            listing.end = End::Failed(error);
        }
        listing
    }

    fn collect<R: Read + Seek>(
        &mut self,
        archive: &mut Archive<R>,
        limit: usize,
        until_foreign: bool,
    ) -> io::Result<()> {
        let mut count = 0_usize;
        for entry in archive.entries_with_seek()? {
            let entry = entry?;
            count = count.saturating_add(1);
            if count > limit {
                self.end = End::TooMany;
                return Ok(());
            }
            let (name, kind) = (entry.path_bytes(), entry.header().entry_type());
            let target = || entry.link_name_bytes().unwrap_or_default();
            match shape::of(&name, kind) {
                Shape::Telling => self.telling = true,
                Shape::Possible => {}
                Shape::Foreign => self.foreign = true,
            }
            let member = match kind {
                EntryType::XGlobalHeader => continue,
                // An old archive writes a folder as a file whose name ends so.
                EntryType::Regular | EntryType::Continuous if !name.ends_with(b"/") => {
                    Member::File { offset: entry.raw_file_position(), size: entry.size() }
                }
                EntryType::Symlink => Member::Link(target().into_owned()),
                EntryType::Link => Member::Link([b"/", &*target()].concat()),
                _ => Member::Other,
            };
            // A name that leads out of the archive names nothing in it.
            if parts(&name).all(|part| part != b"..") {
                self.members.insert(parts(&name).collect::<Vec<_>>().join(&b'/'), member);
            }
            if until_foreign && self.foreign && !self.is_marked() {
                self.end = End::Foreign;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether it has a plain file of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        matches!(self.members.get(name.as_bytes()), Some(Member::File { .. }))
    }

    /// The first bytes of a plain file, at most `count`.
    pub(super) fn start_of(
        &self,
        name: &str,
        archive: &Stored,
        count: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(Member::File { offset, size }) = self.members.get(name.as_bytes()) else {
            return Ok(None);
        };
        let mut reader = archive.reader();
        reader.seek(SeekFrom::Start(*offset))?;
        let mut start = Vec::new();
        reader.take(count.min(*size)).read_to_end(&mut start).map(|_| Some(start))
    }

    /// Whether it has a file that image archives are recognised by.
    pub(super) fn is_marked(&self) -> bool {
        self.has("oci-layout") || self.has("manifest.json")
    }

    /// Whether all members look like parts of an image archive.
    pub(super) fn is_image_shaped(&self) -> bool {
        self.telling && !self.foreign
    }
}

/// Bounds what is read, not what is passed over.
struct Frugal<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for Frugal<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        let more = u64::try_from(count).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(more).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

impl<R: Seek> Seek for Frugal<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.source.seek(to)
    }
}

/// Lets a stream be passed over forwards by reading it.
pub(super) struct Forward<R> {
    source: R,
    position: u64,
}

impl<R> Forward<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, position: 0 }
    }
}

impl<R: Read> Read for Forward<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.position = self.position.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

impl<R: Read> Seek for Forward<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Current(distance) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        let distance = u64::try_from(distance).map_err(|_| io::ErrorKind::Unsupported)?;
        io::copy(&mut self.by_ref().take(distance), &mut io::sink())?;
        Ok(self.position)
    }
}

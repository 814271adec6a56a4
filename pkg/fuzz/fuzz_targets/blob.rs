//! A blob with changed bytes whose digests are right again, as only its maker
//! could do it: an error, never a panic; and what `check` finds nothing wrong
//! with can be read whole.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use microfs::archive::{LayerOptions, write_layer};
use microfs::check::{CheckOptions, Silent, check_blob};
use microfs::compress::Compression;
use microfs::dump::{DumpOptions, dump};
use microfs::format::block_pointer::{POINTER_SIZE, RawBlockPointer};
use microfs::format::superblock::{RawSuperblock, Superblock};
use microfs::format::{DigestAlgorithm, SUPERBLOCK_SIZE};
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::writer::Options;
use rayon::{ThreadPool, ThreadPoolBuilder};
use zerocopy::{FromBytes, IntoBytes};

static POOL: LazyLock<Arc<ThreadPool>> =
    LazyLock::new(|| Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap()));
static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    [Compression::None, Compression::Zstd(3)].into_iter().map(Sample::new).collect()
});

struct Quiet;

impl microfs::writer::Progress for Quiet {
    fn bytes(&self, _more: u64) {}
}

/// A sound blob, and where its parts are.
struct Sample {
    bytes: Vec<u8>,
    superblock: Superblock,
}

/// A little of everything.
fn tree() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |kind: tar::EntryType, path: &str, link: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        if !link.is_empty() {
            header.set_link_name(link).unwrap();
        }
        if kind == tar::EntryType::Char {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        if path == "large" {
            let pairs = [("SCHILY.xattr.user.a", &b"1"[..]), ("SCHILY.xattr.user.b", b"22")];
            archive.append_pax_extensions(pairs).unwrap();
        }
        archive.append_data(&mut header, path, content).unwrap();
    };
    use tar::EntryType as Type;
    add(Type::Directory, "d/", "", b"");
    for number in 0..20u8 {
        add(Type::Regular, &format!("d/small {number}"), "", &[number; 100]);
    }
    let large: Vec<u8> = (0..3000u32).flat_map(|number| (number * number).to_le_bytes()).collect();
    add(Type::Regular, "large", "", &large);
    add(Type::Link, "d/again", "large", b"");
    add(Type::Symlink, "way", "d/small 1", b"");
    add(Type::Char, "null", "", b"");
    add(Type::Fifo, "pipe", "", b"");
    add(Type::Regular, "d/.wh.gone", "", b"");
    add(Type::Link, "below", "elsewhere", b"");
    archive.into_inner().unwrap()
}

impl Sample {
    fn new(compression: Compression) -> Self {
        let writer = Options { block_log: 12, metadata_log: 12, compression, ..Options::default() };
        let options = LayerOptions { writer };
        let pool = Arc::clone(&POOL);
        let archive = tree();
        let written = write_layer(&*archive, Vec::new(), &options, pool, Arc::new(Quiet));
        let (_, bytes, _) = written.unwrap();
        let start = bytes.len() - SUPERBLOCK_SIZE;
        let superblock = Superblock::parse(&bytes[start..], bytes.len() as u64).unwrap();
        Self { bytes, superblock }
    }

    /// Changes bytes: each five of `changes` are a place and what to flip there.
    fn changed(&self, changes: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for change in changes.chunks_exact(5) {
            let place = u32::from_le_bytes([change[0], change[1], change[2], change[3]]);
            let place = place as usize % bytes.len();
            bytes[place] ^= change[4];
        }
        self.sign(&mut bytes);
        bytes
    }

    /// Makes every digest right whose bytes are still where they were.
    fn sign(&self, bytes: &mut [u8]) {
        let superblock = &self.superblock;
        let pointers = superblock.pointers_offset as usize;
        let blocks = superblock.block_count().unwrap() as usize;
        for block in 0..blocks {
            let at = pointers + block * POINTER_SIZE;
            let record = &bytes[at..at + POINTER_SIZE];
            let mut pointer = RawBlockPointer::read_from_bytes(record).unwrap();
            let start = pointer.offset.get();
            let end = start.checked_add(u64::from(pointer.stored.get() & 0xff_ffff));
            let range = end.and_then(|end| bytes.get(start as usize..end as usize));
            if let Some(stored) = range {
                pointer.digest = DigestAlgorithm::Blake3.digest(stored);
                bytes[at..at + POINTER_SIZE].copy_from_slice(pointer.as_bytes());
            }
        }
        let page = POINTER_SIZE << superblock.page_log;
        let table = pointers..pointers + blocks * POINTER_SIZE;
        let digests: Vec<u8> = bytes[table]
            .chunks(page)
            .flat_map(|page| DigestAlgorithm::Blake3.digest(page))
            .collect();
        let pages = superblock.pages_offset as usize;
        bytes[pages..pages + digests.len()].copy_from_slice(&digests);
        let end = superblock.blobs_offset as usize + superblock.blob_count as usize * 72;
        let tail = DigestAlgorithm::Blake3.digest(&bytes[pages..end]);
        let start = bytes.len() - SUPERBLOCK_SIZE;
        let raw = RawSuperblock::mut_from_bytes(&mut bytes[start..]).unwrap();
        raw.tail_digest = tail;
        let own = DigestAlgorithm::Blake3.digest(&raw.as_bytes()[..SUPERBLOCK_SIZE - 32]);
        raw.digest = own;
    }
}

fuzz_target!(|changes: &[u8]| {
    let Some((which, changes)) = changes.split_first() else { return };
    let sample = &SAMPLES[usize::from(*which) % SAMPLES.len()];
    let bytes = sample.changed(changes);
    if changes.is_empty() {
        assert!(bytes == sample.bytes, "signing changes a sound blob");
    }
    let report = check_blob(Box::new(bytes.clone()), &CheckOptions::default(), &POOL, &Silent);
    let layer = LayerSource { source: Box::new(bytes), sha256: None };
    let opened = Stack::open(vec![layer], &StackOptions::default());
    let read = opened.map(|stack| {
        let options = DumpOptions::default();
        (dump(&stack, &options, &mut std::io::sink()), stack)
    });
    if report.is_sound() {
        let (dumped, _) = read.expect("it is sound but cannot be opened");
        // A link to a layer below has none here; that is not the blob's fault.
        let text = dumped.err().map(|error| format!("{error:?}")).unwrap_or_default();
        assert!(text.is_empty() || text.contains("LinkUnresolved"), "sound, but {text}");
    }
});

//! Any bytes as a layer's archive: an error, or a blob that is sound and the
//! same every time.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use microfs::archive::{LayerOptions, write_layer};
use microfs::check::{CheckOptions, Silent, check_blob};
use rayon::{ThreadPool, ThreadPoolBuilder};

static POOL: LazyLock<Arc<ThreadPool>> =
    LazyLock::new(|| Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap()));

struct Quiet;

impl microfs::writer::Progress for Quiet {
    fn bytes(&self, _more: u64) {}
}

fn convert(archive: &[u8]) -> Option<Vec<u8>> {
    let options = LayerOptions::default();
    let written = write_layer(archive, Vec::new(), &options, Arc::clone(&POOL), Arc::new(Quiet));
    written.ok().map(|(_, blob, _)| blob)
}

fuzz_target!(|archive: &[u8]| {
    let Some(blob) = convert(archive) else { return };
    assert!(convert(archive).as_ref() == Some(&blob), "another blob the second time");
    let report = check_blob(Box::new(blob), &CheckOptions::default(), &POOL, &Silent);
    assert!(report.is_sound(), "{:?}", report.findings);
});

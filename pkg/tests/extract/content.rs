//! Bytes and holes of files.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use microfs::extract::{Action, ExtractError, ExtractOptions, Silent, extract};
use microfs::tree::NodeId;

use crate::support::{noise, plain_options, pool, stack};
use crate::{assert_metadata, built, fail, mine, place, root, run};

#[test]
fn keeps_holes() {
    let mut builder = root();
    let block = 1 << 20;
    let data = vec![(0, noise(1, 4096)), (block, noise(2, 9000)), (30 * block + 5, noise(3, 7))];
    let size = 64 * block;
    builder.sparse(NodeId::ROOT, b"sparse", mine(0o644, 1, 1), size, data.clone());
    builder.sparse(NodeId::ROOT, b"hole", mine(0o644, 1, 1), 5 * block, Vec::new());
    let stack = built(builder);
    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    assert_eq!(report.bytes, 4096 + 9000 + 7);
    let file = fs::File::open(target.join("sparse")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), size);
    assert!(file.metadata().unwrap().blocks() * 512 < 64 << 10, "holes were filled");
    let mut at = 0;
    for (offset, bytes) in data {
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, offset).unwrap();
        assert_eq!(found, bytes);
        let mut gap = vec![1; usize::try_from(offset - at).unwrap()];
        file.read_exact_at(&mut gap, at).unwrap();
        assert!(gap.iter().all(|byte| *byte == 0));
        at = offset + u64::try_from(bytes.len()).unwrap();
    }
    let hole = fs::metadata(target.join("hole")).unwrap();
    assert_eq!((hole.len(), hole.blocks()), (5 * block, 0));
}

#[test]
fn writes_a_large_file_in_parts() {
    let mut builder = root();
    let bytes = noise(5, (20 << 20) + 12_345);
    builder.file(NodeId::ROOT, b"large", mine(0o444, 1, 1), &bytes);
    let stack = built(builder);
    for threads in [1, 4] {
        let (_keep, target) = place();
        let options = ExtractOptions::default();
        extract(&stack, &target, &options, &pool(threads), &Silent).unwrap();
        assert!(fs::read(target.join("large")).unwrap() == bytes);
        assert_metadata(&target.join("large"), mine(0o444, 1, 1));
    }
}

#[test]
fn the_largest_file_fits_where_the_filesystem_lets_it() {
    let mut builder = root();
    let size = u64::MAX >> 1;
    builder.sparse(NodeId::ROOT, b"vast", mine(0o644, 1, 1), size, vec![(1 << 40, vec![5])]);
    let stack = built(builder);
    let shm = Path::new("/dev/shm");
    if let Ok(directory) = tempfile::tempdir_in(shm) {
        let target = directory.path().join("target");
        run(&stack, &target, ExtractOptions::default());
        let file = fs::File::open(target.join("vast")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), size);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1 << 40).unwrap();
        assert_eq!(byte, [5]);
    }
    let (_keep, target) = place();
    match extract(&stack, &target, &ExtractOptions::default(), &pool(1), &Silent) {
        Ok(_) => assert_eq!(fs::metadata(target.join("vast")).unwrap().len(), size),
        Err(error) => {
            let ExtractError::System { action, path, .. } = error else { panic!("{error:?}") };
            assert_eq!(action, Action::SetLength(size));
            assert_eq!(path, target.join("vast"));
            assert!(!path.exists(), "a file that could not be written was left");
        }
    }
}

#[test]
fn a_damaged_file_is_named_and_not_left() {
    let mut builder = root();
    let directory = builder.directory(NodeId::ROOT, b"dir", mine(0o755, 1, 1));
    builder.file(directory, b"bad", mine(0o644, 1, 1), &noise(1, 20 << 12));
    let mut blob = builder.build(&plain_options());
    blob[64 + 10 * 4096] ^= 1;
    let (_keep, target) = place();
    let error = fail(&stack(vec![blob]), &target, ExtractOptions::default());
    let ExtractError::Read { path, .. } = error else { panic!("{error:?}") };
    assert_eq!(path, target.join("dir/bad"));
    assert!(!path.exists());
}

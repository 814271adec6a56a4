use microfs::stack::NodeNum;

use super::{Dense, Piece, SIZE_MAX, STALE_MAX, WATCHED};

const UNIT: u64 = 100;
const FILE: NodeNum = NodeNum(7);

fn touch(dense: &mut Dense, pieces: impl Iterator<Item = u64>, size: u64) {
    for piece in pieces {
        dense.touched(FILE, piece * UNIT + 3, 5, || Some(size));
    }
}

#[test]
fn the_rest_of_a_dense_file_comes_in_order_and_once() {
    let mut dense = Dense::new(UNIT);
    // 160 pieces, the last of them short: 20 are an eighth.
    let size = 159 * UNIT + 1;
    touch(&mut dense, (0..19).map(|number| number * 8), size);
    assert!(!dense.is_pending() && dense.next().is_none());
    touch(&mut dense, std::iter::once(159), size);
    assert!(dense.is_pending());
    let given: Vec<_> = std::iter::from_fn(|| dense.next()).collect();
    let wanted = (0..159).filter(|piece| piece % 8 != 0 || *piece == 152);
    let wanted: Vec<_> = wanted.map(|piece| Piece { node: FILE, offset: piece * UNIT }).collect();
    assert_eq!(given, wanted);
    assert!(!dense.is_pending());
}

#[test]
fn a_part_that_reaches_over_pieces_counts_for_each() {
    let mut dense = Dense::new(UNIT);
    dense.touched(FILE, 0, 16 * UNIT, || Some(20 * UNIT));
    let given: Vec<_> = std::iter::from_fn(|| dense.next()).map(|piece| piece.offset).collect();
    assert_eq!(given, [1600, 1700, 1800, 1900]);
}

#[test]
fn what_the_kernel_drops_is_not_given_again_at_once() {
    let mut dense = Dense::new(UNIT);
    touch(&mut dense, 0..16, 100 * UNIT);
    assert_eq!(dense.next(), Some(Piece { node: FILE, offset: 1600 }));
    // Some requests may cross what is given.
    touch(&mut dense, std::iter::repeat_n(16, STALE_MAX), 100 * UNIT);
    assert_eq!(dense.next(), Some(Piece { node: FILE, offset: 1700 }));
    // More of them, and the file is watched anew.
    touch(&mut dense, std::iter::once(16), 100 * UNIT);
    assert!(!dense.is_pending() && dense.next().is_none());
    touch(&mut dense, 0..16, 100 * UNIT);
    assert!(dense.is_pending());
    dense.forget(FILE);
    assert!(!dense.is_pending());
}

#[test]
fn small_and_very_large_files_are_left_alone() {
    let mut dense = Dense::new(UNIT);
    touch(&mut dense, 0..15, 15 * UNIT);
    assert!(!dense.is_pending());
    let pieces = SIZE_MAX / UNIT + 1;
    touch(&mut dense, 0..pieces, SIZE_MAX + 1);
    assert!(!dense.is_pending());
}

#[test]
fn so_many_files_are_watched_and_no_more() {
    let mut dense = Dense::new(UNIT);
    let size = || Some(100 * UNIT);
    for number in 0..=u64::try_from(WATCHED).unwrap() {
        dense.touched(NodeNum(number), 0, 15 * UNIT, size);
    }
    // The first was forgotten, the second was not.
    dense.touched(NodeNum(0), 1500, UNIT, size);
    assert!(!dense.is_pending());
    dense.touched(NodeNum(2), 1500, UNIT, size);
    assert!(dense.is_pending());
}

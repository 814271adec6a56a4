use microfs::FileType;
use microfs::stack::{Attr, NodeNum};
use microfs::tree::{DeviceNumber, Timestamp};
use rustix::io::Errno;

use super::{encode_device, file_attr};

fn device(major: u32, minor: u32) -> DeviceNumber {
    DeviceNumber { major, minor }
}

fn attr(file_type: FileType) -> Attr {
    Attr {
        node: NodeNum(7),
        file_type,
        permissions: 0o4711,
        uid: u32::MAX - 1,
        gid: 70_000,
        links: 3,
        size: i64::MAX.unsigned_abs(),
        blocks: 8,
        mtime: Timestamp { seconds: -2, nanoseconds: 800_000_000 },
        device: device(8, 1),
    }
}

#[test]
fn device_numbers_follow_the_kernels_encoding() {
    // Expected values from include/linux/kdev_t.h, new_encode_dev().
    assert_eq!(encode_device(device(8, 1)).unwrap(), 0x801);
    assert_eq!(encode_device(device(0xfff, 0xf_ffff)).unwrap(), 0xffff_ffff);
    assert_eq!(encode_device(device(1, 0x1_2345)).unwrap(), 0x1230_0145);
    assert_eq!(encode_device(device(4096, 0)).unwrap_err(), Errno::OVERFLOW);
    assert_eq!(encode_device(device(0, 1 << 20)).unwrap_err(), Errno::OVERFLOW);
}

#[test]
fn a_regular_file_has_no_device_number() {
    let shown = file_attr(&attr(FileType::Regular), 512).unwrap();
    assert_eq!((shown.rdev, shown.blksize, shown.nlink, shown.mode), (0, 4096, 3, 0o104_711));
    assert_eq!(
        (shown.size, shown.uid, shown.gid),
        (i64::MAX.unsigned_abs(), 4_294_967_294, 70_000)
    );
    assert_eq!((shown.mtime, shown.mtimensec), (-2, 800_000_000));
    assert_eq!((shown.atime, shown.ctime), (-2, -2));
    assert_eq!(file_attr(&attr(FileType::BlockDevice), 1 << 20).unwrap().rdev, 0x801);
}

//! Kinds of trees that not every filesystem can hold.

use super::content::{Content, Fill, Run};
use super::kinds::{directories, fresh, meta};
use super::plan::{Meta, Plan, ROOT, What};
use super::random::Random;

/// Pages of tmpfs, its unit of holes.
const PAGE: u64 = 4096;
/// The longest file.
const LONGEST: u64 = i64::MAX as u64;

pub fn sparse(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    let mut add = |name: &str, content: Content, random: &mut Random| {
        let meta = meta(random);
        plan.add(ROOT, name.as_bytes(), What::File(content), meta);
    };
    add("all-hole-1", Content::hole(1), random);
    add("all-hole-5000", Content::hole(5000), random);
    add("all-hole-longest", Content::hole(LONGEST), random);
    let data = |offset, length, seed| Run { offset, length, fill: Fill::Random(seed) };
    let last = LONGEST / PAGE * PAGE;
    let runs = vec![data(0, 10, 1), data(1 << 40, 8192, 2), data(last, LONGEST - last, 3)];
    add("longest-with-islands", Content { size: LONGEST, runs }, random);
    let runs = vec![data(0, 100_000, 4)];
    add("trailing-hole", Content { size: 1 << 30, runs }, random);
    let runs = vec![data(1 << 20, 777, 5)];
    add("leading-hole", Content { size: (1 << 20) + 777, runs }, random);
    let runs = vec![data(8192, 4096, 6), data(16_384, 4096, 6)];
    add("same-island-twice", Content { size: 40_000, runs }, random);
    let runs = vec![Run { offset: PAGE * 3, length: PAGE, fill: Fill::Zeros }];
    add("island-of-zeros", Content { size: PAGE * 6, runs }, random);
    for number in 0..12 {
        let (mut at, mut runs) = (random.below(20) * PAGE, Vec::new());
        for _ in 0..1 + random.below(8) {
            // Runs begin at pages; where they end only the last may be inside one.
            let length = (1 + random.below(40)) * PAGE;
            let fill = if random.one_in(3) { Fill::Words(number) } else { Fill::Random(at) };
            runs.push(Run { offset: at, length, fill });
            at += length + (1 + random.below(300)) * PAGE;
        }
        let size = if random.one_in(2) { at + random.below(PAGE) } else { end(&runs) };
        add(&format!("islands-{number:02}"), Content { size, runs }, random);
    }
    plan
}

fn end(runs: &[Run]) -> u64 {
    runs.last().map_or(0, |run| run.offset + run.length)
}

/// `security.capability`, revision 2: `cap_net_raw` permitted and effective.
pub const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A POSIX ACL as the kernel takes it: owner, one more user, group, mask, others.
pub fn acl(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 7, none), (0x02, 6, user), (0x04, 5, none), (0x10, 7, none), (0x20, 1, none)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

pub fn xattrs(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    let places = directories(&mut plan, random, 6);
    let text = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    for number in 0..80u32 {
        let parent = *random.pick(&places);
        let name = fresh(&plan, random, parent, 7);
        let mut meta = meta(random);
        let xattrs = &mut meta.xattrs;
        xattrs.push(text("trusted.overlay.opaque", b"y"));
        if random.one_in(2) {
            xattrs.push(text("security.microfs", b"label:\0with:nul"));
        }
        let what = match number % 8 {
            0 => What::Directory,
            1 => What::Symlink(b"target".to_vec()),
            2 => What::Fifo,
            _ => What::File(Content::whole(random.below(5000), Fill::Words(random.next()))),
        };
        if matches!(what, What::File(_) | What::Directory) {
            xattrs.push(text("user.empty", b""));
            for key in 0..random.below(12) {
                let length = random.index(100);
                let value = random.bytes(length);
                xattrs.push((format!("user.key-{key}").into_bytes(), value));
            }
        }
        match number % 8 {
            0 if random.one_in(2) => {
                xattrs.push((b"system.posix_acl_default".to_vec(), acl(number)));
                xattrs.push((b"system.posix_acl_access".to_vec(), acl(number + 1)));
            }
            3 => xattrs.push(text("security.capability", &CAPABILITY)),
            4 => xattrs.push((b"system.posix_acl_access".to_vec(), acl(number))),
            5 => {
                let long = [b"user.".as_slice(), &[b'n'; 250]].concat();
                xattrs.push((long, random.bytes(3)));
            }
            6 if number < 8 => xattrs.push((b"user.largest".to_vec(), random.bytes(65_536))),
            7 => xattrs.push((b"user.\xff\x01\n".to_vec(), b"bytes".to_vec())),
            _ => {}
        }
        plan.add(parent, &name, what, meta);
    }
    plan
}

pub fn specials(random: &mut Random) -> Plan {
    const DEVICES: [(u32, u32); 8] = [
        (0, 0),
        (1, 3),
        (7, 255),
        (8, 256),
        (255, 65_535),
        (256, 0),
        (511, 1 << 19),
        (4095, (1 << 20) - 1),
    ];
    let mut plan = Plan::new(meta(random));
    let places = directories(&mut plan, random, 4);
    let mut add = |name: String, what: What, random: &mut Random| {
        let parent = *random.pick(&places);
        let meta = meta(random);
        let object = plan.add(parent, name.as_bytes(), what, meta);
        if random.one_in(3) {
            plan.link(*random.pick(&places), format!("{name}-again").as_bytes(), object);
        }
    };
    for (major, minor) in DEVICES {
        add(format!("c-{major}-{minor}"), What::CharDevice(major, minor), random);
        add(format!("b-{major}-{minor}"), What::BlockDevice(major, minor), random);
    }
    for number in 0..10 {
        add(format!("fifo-{number}"), What::Fifo, random);
        add(format!("socket-{number}"), What::Socket, random);
    }
    plan
}

pub fn extremes(random: &mut Random) -> Plan {
    const IDS: [u32; 5] = [u32::MAX - 1, 1 << 31, (1 << 31) - 1, 65_535, 65_534];
    const TIMES: [(i64, u32); 12] = [
        (-1, 0),
        (-1, 1),
        (-1, 999_999_999),
        (0, 0),
        (0, 1),
        (-(1 << 31), 7),
        (1 << 31, 7),
        (-(1 << 40), 123_456_789),
        (1 << 40, 987_654_321),
        (i64::MAX, 999_999_999),
        (i64::MIN, 0),
        (i64::MIN, 999_999_999),
    ];
    let mut plan = Plan::new(meta(random));
    for (number, time) in TIMES.into_iter().enumerate() {
        let what = match number % 3 {
            0 => What::Directory,
            1 => What::Symlink(b"x".to_vec()),
            _ => What::File(Content::whole(9, Fill::Zeros)),
        };
        let meta = Meta { mtime: time, ..meta(random) };
        plan.add(ROOT, format!("time-{number:02}").as_bytes(), what, meta);
    }
    for (number, id) in IDS.into_iter().enumerate() {
        let other = IDS[IDS.len() - 1 - number];
        let meta = Meta { uid: id, gid: other, ..meta(random) };
        plan.add(ROOT, format!("owner-{number}").as_bytes(), What::Fifo, meta);
    }
    for permissions in [0, 0o111, 0o1000, 0o1777, 0o2755, 0o2644, 0o4755, 0o4644, 0o6777, 0o7777] {
        let meta = Meta { permissions, ..meta(random) };
        let name = format!("mode-{permissions:04o}");
        plan.add(ROOT, name.as_bytes(), What::File(Content::default()), meta.clone());
        plan.add(ROOT, format!("dir-{name}").as_bytes(), What::Directory, meta);
    }
    let target = [b"t/".repeat(2047).as_slice(), b"e"].concat();
    assert_eq!(target.len(), 4095);
    let link_meta = meta(random);
    plan.add(ROOT, b"long-target", What::Symlink(target), link_meta);
    // 24 names of 255 bytes: a path of 6143 bytes, where PATH_MAX is 4096.
    let mut parent = ROOT;
    for level in 0..24u8 {
        let name = vec![b'a' + level; 255];
        let file_meta = meta(random);
        let beside = vec![b'A' + level; 255];
        let what = What::File(Content::whole(u64::from(level) + 1, Fill::Words(9)));
        plan.add(parent, &beside, what, file_meta);
        let directory_meta = meta(random);
        parent = plan.add(parent, &name, What::Directory, directory_meta);
    }
    plan
}

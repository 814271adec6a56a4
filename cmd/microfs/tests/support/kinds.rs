//! Kinds of trees, each a pure function of its seed.

use super::content::{Content, Fill};
use super::plan::{Meta, Number, Plan, ROOT, What};
use super::random::Random;
use super::special_kinds as special;

/// A kind of tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing but a root.
    Empty,
    /// Directories in directories.
    OnlyDirectories,
    /// Objects of several names and symbolic links of every sort.
    Links,
    /// Names of many languages, and of none.
    Names,
    /// Files of 2^9 to 2^21 bytes and around, of zeros and of random bytes.
    Sizes,
    /// Files of zeros that are data, of random sizes.
    ZeroFilled,
    /// Names of beta-distributed lengths, and an exact budget of content.
    Mixed,
    /// Holes, up to 2^63 - 1 bytes.
    Sparse,
    /// Extended attributes of all namespaces.
    Xattrs,
    /// Pipes, sockets and devices.
    Specials,
    /// The longest names, paths and targets; the ends of times, owners and modes.
    Extremes,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Empty,
        Self::OnlyDirectories,
        Self::Links,
        Self::Names,
        Self::Sizes,
        Self::ZeroFilled,
        Self::Mixed,
        Self::Sparse,
        Self::Xattrs,
        Self::Specials,
        Self::Extremes,
    ];

    /// A tree of a few MiB at most.
    pub fn plan(self, seed: u64) -> Plan {
        self.plan_of(seed, false)
    }

    /// A tree that is larger where that says more.
    pub fn large_plan(self, seed: u64) -> Plan {
        self.plan_of(seed, true)
    }

    fn plan_of(self, seed: u64, large: bool) -> Plan {
        let random = &mut Random::new(seed);
        match self {
            Self::Empty => Plan::new(meta(random)),
            Self::OnlyDirectories => only_directories(random),
            Self::Links => links(random),
            Self::Names => names(random),
            Self::Sizes => sizes(random),
            Self::ZeroFilled => zero_filled(random),
            Self::Mixed => mixed(random, large),
            Self::Sparse => special::sparse(random),
            Self::Xattrs => special::xattrs(random),
            Self::Specials => special::specials(random),
            Self::Extremes => special::extremes(random),
        }
    }
}

/// Any permissions, owner and time that every filesystem can keep.
pub fn meta(random: &mut Random) -> Meta {
    let small = random.one_in(2);
    let mut id = || if small { random.below(3) as u32 } else { random.below(1 << 31) as u32 };
    let (uid, gid) = (id(), id());
    Meta {
        permissions: *random.pick(&[0o644, 0o755, 0o600, 0o700, 0o4755, 0o2711, 0o1777, 0, 0o7777]),
        uid,
        gid,
        mtime: (random.below(1 << 31) as i64, random.below(1_000_000_000) as u32),
        xattrs: Vec::new(),
    }
}

/// A name of lower-case letters that is new in the directory.
pub fn fresh(plan: &Plan, random: &mut Random, parent: Number, length: usize) -> Vec<u8> {
    loop {
        let name: Vec<u8> = (0..length).map(|_| b'a' + random.below(26) as u8).collect();
        if !plan.has(parent, &name) {
            return name;
        }
    }
}

/// Directories at random places below the root, the root among the result.
pub fn directories(plan: &mut Plan, random: &mut Random, count: usize) -> Vec<Number> {
    let mut all = vec![ROOT];
    for _ in 0..count {
        let parent = *random.pick(&all);
        let length = 3 + random.index(8);
        let name = fresh(plan, random, parent, length);
        let meta = meta(random);
        all.push(plan.add(parent, &name, What::Directory, meta));
    }
    all
}

fn only_directories(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    directories(&mut plan, random, 150);
    plan
}

fn links(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    let places = directories(&mut plan, random, 12);
    for number in 0..60 {
        let parent = *random.pick(&places);
        let name = fresh(&plan, random, parent, 6);
        let what = match number % 6 {
            0 => What::Symlink(name.clone()),
            1 => What::Symlink(b"/nowhere/at/all".to_vec()),
            2 => What::Symlink(b"../../../../../etc/passwd".to_vec()),
            3 => What::Fifo,
            _ => {
                let size = random.below(9000);
                What::File(Content::whole(size, Fill::Words(random.next())))
            }
        };
        let meta = meta(random);
        let object = plan.add(parent, &name, what, meta);
        for _ in 0..random.below(6) {
            let other = *random.pick(&places);
            let name = fresh(&plan, random, other, 6);
            plan.link(other, &name, object);
        }
        if number % 6 == 5 {
            let other = *random.pick(&places);
            let to_it = fresh(&plan, random, other, 5);
            let meta = self::meta(random);
            plan.add(other, &to_it, What::Symlink(name), meta);
        }
    }
    plan
}

fn names(random: &mut Random) -> Plan {
    const TEXTS: [&str; 24] = [
        "ascii",
        "two words",
        " ",
        "...",
        "-rf",
        "~",
        "$HOME",
        "*",
        "a\\b",
        "line\nfeed",
        "tab\t",
        "\u{1}\u{7f}",
        "ümläut",
        "u\u{308}mla\u{308}ut",
        "日本語のファイル",
        "Ελληνικά",
        "русский",
        "العربية",
        "한국어",
        "👩‍👩‍👧‍👦",
        "\u{feff}bom",
        ".wh.whiteout",
        ".wh..wh..opq",
        "%2e%2e%2f",
    ];
    const BYTES: [&[u8]; 6] =
        [b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"latin1-\xe9", b"\x80\x81\x82", b"a\xf0\x9f"];
    let mut plan = Plan::new(meta(random));
    let mut places = vec![ROOT];
    let texts = TEXTS.iter().map(|text| text.as_bytes()).chain(BYTES);
    for (number, name) in texts.enumerate() {
        let meta = meta(random);
        if number % 3 == 0 {
            let directory = plan.add(ROOT, name, What::Directory, meta);
            places.push(directory);
        } else {
            plan.add(ROOT, name, What::File(Content::whole(number as u64, Fill::Zeros)), meta);
        }
    }
    for _ in 0..150 {
        let parent = *random.pick(&places);
        let length = 1 + random.index(255);
        let name: Vec<u8> = random.bytes(length).into_iter().map(allowed).collect();
        if plan.has(parent, &name) || name == b"." || name == b".." {
            continue;
        }
        let target = random.bytes(1 + length).into_iter().map(|byte| byte.max(1)).collect();
        let what = if random.one_in(3) { What::Symlink(target) } else { file(random, 300) };
        let meta = meta(random);
        plan.add(parent, &name, what, meta);
    }
    plan
}

/// Any byte but the two that no name may hold.
fn allowed(byte: u8) -> u8 {
    if byte == 0 || byte == b'/' { b'_' } else { byte }
}

fn file(random: &mut Random, limit: u64) -> What {
    let size = random.below(limit);
    let fill = match random.below(3) {
        0 => Fill::Zeros,
        1 => Fill::Random(random.next()),
        _ => Fill::Words(random.next()),
    };
    What::File(Content::whole(size, fill))
}

fn sizes(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    for log in 9..=21u32 {
        let size = 1u64 << log;
        let around = if log <= 16 { vec![size - 1, size, size + 1] } else { vec![size] };
        for size in around {
            let seed = random.next();
            for (name, fill) in [("zeros", Fill::Zeros), ("random", Fill::Random(seed))] {
                let meta = meta(random);
                let what = What::File(Content::whole(size, fill));
                plan.add(ROOT, format!("{name}-{size:07}").as_bytes(), what, meta);
            }
        }
    }
    plan
}

fn zero_filled(random: &mut Random) -> Plan {
    let mut plan = Plan::new(meta(random));
    for number in 0..30 {
        let size = if number == 0 { 0 } else { random.below(200_000) };
        let name = fresh(&plan, random, ROOT, 8);
        let meta = meta(random);
        plan.add(ROOT, &name, What::File(Content::whole(size, Fill::Zeros)), meta);
    }
    plan
}

fn mixed(random: &mut Random, large: bool) -> Plan {
    let (budget, files) = if large { (48 << 20, 900) } else { (3 << 20, 160) };
    let mut plan = Plan::new(meta(random));
    let mut places = directories(&mut plan, random, files / 5);
    places.push(ROOT);
    let mut earlier: Vec<Content> = Vec::new();
    for size in random.split(budget, files) {
        let parent = *random.pick(&places);
        let length = 1 + random.beta(2, 5, 255) as usize;
        // The shortest names are soon taken.
        let length = if length < 3 { 3 } else { length };
        let name = fresh(&plan, random, parent, length);
        let content = match random.below(5) {
            0 if !earlier.is_empty() => random.pick(&earlier).clone(),
            1 => Content::whole(size, Fill::Zeros),
            2 | 3 => Content::whole(size, Fill::Words(random.next())),
            _ => Content::whole(size, Fill::Random(random.next())),
        };
        earlier.push(content.clone());
        let meta = meta(random);
        plan.add(parent, &name, What::File(content), meta);
    }
    plan
}

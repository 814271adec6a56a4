//! Members of an archive, made at random from so few names that they collide.

use std::fmt;

use proptest::prelude::*;

/// Attributes that a header holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub mtime: i64,
    /// Value of the attribute `user.t`, for files and directories.
    pub xattr: Option<String>,
}

impl Meta {
    /// Of a directory that no archive describes.
    pub fn implied() -> Self {
        Self { mode: 0o755, uid: 0, gid: 0, mtime: 0, xattr: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File(Vec<u8>),
    Directory,
    Symlink(String),
    HardLink(String),
    Fifo,
    Device(u32, u32),
    /// Of the name that the path ends with.
    Whiteout,
    /// Of the directory that the path names; empty for the root.
    Opaque,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Member {
    pub path: String,
    pub kind: Kind,
    pub meta: Meta,
}

impl fmt::Debug for Member {
    /// On one line, also where others are spread.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, meta } = self;
        let Meta { mode, uid, gid, mtime, xattr } = meta;
        write!(f, "{path:?} {kind:?} {mode:04o} {uid}:{gid} @{mtime}")?;
        xattr.iter().try_for_each(|value| write!(f, " user.t={value:?}"))
    }
}

impl Member {
    /// The name that it has in the archive.
    pub fn name(&self) -> String {
        match (&self.kind, self.path.rsplit_once('/')) {
            (Kind::Opaque, _) if self.path.is_empty() => ".wh..wh..opq".to_owned(),
            (Kind::Opaque, _) => format!("{}/.wh..wh..opq", self.path),
            (Kind::Whiteout, Some((parent, name))) => format!("{parent}/.wh.{name}"),
            (Kind::Whiteout, None) => format!(".wh.{}", self.path),
            (Kind::Directory, _) if self.path.is_empty() => "./".to_owned(),
            (Kind::Directory, _) => format!("{}/", self.path),
            _ => self.path.clone(),
        }
    }
}

/// Writes an archive with the `tar` crate.
pub fn archive(members: &[Member]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for member in members {
        let mut header = tar::Header::new_ustar();
        header.set_mode(member.meta.mode.into());
        header.set_uid(member.meta.uid.into());
        header.set_gid(member.meta.gid.into());
        header.set_mtime(u64::try_from(member.meta.mtime).unwrap());
        header.set_size(0);
        let mut data: &[u8] = &[];
        let entry_type = match &member.kind {
            Kind::File(bytes) => {
                data = bytes;
                header.set_size(u64::try_from(bytes.len()).unwrap());
                tar::EntryType::Regular
            }
            Kind::Whiteout | Kind::Opaque => tar::EntryType::Regular,
            Kind::Directory => tar::EntryType::Directory,
            Kind::Symlink(target) => {
                header.set_link_name_literal(target).unwrap();
                tar::EntryType::Symlink
            }
            Kind::HardLink(target) => {
                header.set_link_name_literal(target).unwrap();
                tar::EntryType::Link
            }
            Kind::Fifo => tar::EntryType::Fifo,
            Kind::Device(major, minor) => {
                header.set_device_major(*major).unwrap();
                header.set_device_minor(*minor).unwrap();
                tar::EntryType::Char
            }
        };
        header.set_entry_type(entry_type);
        if let Some(value) = &member.meta.xattr {
            let record = ("SCHILY.xattr.user.t", value.as_bytes());
            builder.append_pax_extensions([record]).unwrap();
        }
        let name = member.name();
        header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d"])
}

/// One to three names.
fn path() -> impl Strategy<Value = String> {
    let count = prop_oneof![4 => Just(1usize), 4 => Just(2), 2 => Just(3)];
    count.prop_flat_map(|count| prop::collection::vec(name(), count)).prop_map(|v| v.join("/"))
}

/// `..` only at the beginning: what it means behind a name that a lower layer
/// may make a link is not for one layer to know.
fn target() -> impl Strategy<Value = String> {
    let lead = prop::sample::select(vec!["", "", "", "/", "/", "../", "../../", "./"]);
    prop_oneof![
        12 => (lead, path()).prop_map(|(lead, path)| format!("{lead}{path}")),
        1 => prop::sample::select(vec!["/", ".", "..", "/missing"]).prop_map(str::to_owned),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => (0u8..200, 0usize..40).prop_map(|(byte, length)| Kind::File(vec![byte; length])),
        6 => Just(Kind::Directory),
        5 => target().prop_map(Kind::Symlink),
        5 => (prop::sample::select(vec!["", "", "/", "./"]), path())
            .prop_map(|(lead, path)| Kind::HardLink(format!("{lead}{path}"))),
        1 => Just(Kind::Fifo),
        1 => (0u32..3, 0u32..3).prop_map(|(major, minor)| Kind::Device(major, minor)),
        4 => Just(Kind::Whiteout),
        3 => Just(Kind::Opaque),
    ]
}

fn meta() -> impl Strategy<Value = Meta> {
    let modes = prop::sample::select(vec![0o755u16, 0o644, 0o700, 0o1777, 0o4711, 0]);
    let xattr = prop_oneof![6 => Just(None), 1 => "[xyz]{0,3}".prop_map(Some)];
    (modes, 0u32..3, 0u32..3, 1i64..50, xattr).prop_map(|(mode, uid, gid, mtime, xattr)| Meta {
        mode,
        uid,
        gid,
        mtime,
        xattr,
    })
}

fn member() -> impl Strategy<Value = Member> {
    let named = (path(), kind());
    let root = prop_oneof![3 => Just(Kind::Directory), 1 => Just(Kind::Opaque)];
    let placed = prop_oneof![30 => named, 1 => root.prop_map(|kind| (String::new(), kind))];
    (placed, meta()).prop_map(|((path, kind), mut meta)| {
        if !matches!(kind, Kind::File(_) | Kind::Directory) {
            meta.xattr = None;
        }
        Member { path, kind, meta }
    })
}

/// Layers, the lowest first.
pub fn layers() -> impl Strategy<Value = Vec<Vec<Member>>> {
    prop::collection::vec(prop::collection::vec(member(), 1..9), 1..6)
}

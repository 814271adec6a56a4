//! Single members, and what is refused.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use microfs::ReadError;
use microfs::archive::{EmitError, MemberKind, Members, Segment};
use microfs::export::{self, ExportError, ExportOptions};
use microfs::format::section::Section;
use microfs::format::{FormatError, Place, Rule};
use microfs::squash::{SquashError, squash};
use microfs::stack::{NodeNum, Stack};
use microfs::tree::NodeId;
use microfs::writer::{Silent, WriteError};

use super::support::blob::Blob;
use super::support::{Builder, metadata, noise, plain_options, pool, stack};
use super::{convert, export_layer, export_tree, names};

fn builder() -> Builder {
    Builder::new(metadata(0o755, 0, 0, 1, 0))
}

fn one(builder: Builder) -> Stack {
    stack(vec![builder.build(&plain_options())])
}

/// Where a file's data are, by the reader of archives.
fn segments(archive: &[u8]) -> Vec<(u64, u64)> {
    let mut members = Members::new(archive);
    while let Some(member) = members.next_member().unwrap() {
        if let MemberKind::Regular { data, .. } = member.kind {
            return data.iter().map(|Segment { offset, length }| (*offset, *length)).collect();
        }
    }
    panic!("no file");
}

/// The content of all files, by GNU tar.
fn tar_content(archive: &[u8]) -> Vec<u8> {
    let mut tar = Command::new("tar");
    let mut child =
        tar.args(["-xOf", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(archive).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// GNU tar wants each run of data in blocks of its own, others want them one
/// after another: both are served when all but the last are whole blocks.
#[test]
fn runs_of_data_are_whole_blocks() {
    type Runs = &'static [(u64, u64)];
    let cases: [(u64, Runs, Runs); 4] = [
        (10_000, &[(3, 3), (5000, 700), (9999, 1)], &[(3, 512), (5000, 1024), (9999, 1)]),
        (10_000, &[(0, 100), (300, 100), (1000, 5)], &[(0, 512), (1000, 5)]),
        (10_000, &[(0, 1), (512, 512), (2000, 100)], &[(0, 1024), (2000, 100)]),
        (600, &[(1, 1), (514, 1)], &[(1, 512), (514, 1)]),
    ];
    for (size, runs, wanted) in cases {
        let mut layer = builder();
        let bytes =
            |(at, length): &(u64, u64)| (*at, noise(*at, usize::try_from(*length).unwrap()));
        let data: Vec<_> = runs.iter().map(bytes).collect();
        layer.sparse(NodeId::ROOT, b"f", metadata(0o644, 0, 0, 1, 0), size, data.clone());
        let stack = one(layer);
        let archive = export_layer(&stack, 0).unwrap();
        assert_eq!(segments(&archive), wanted);
        let mut content = vec![0; usize::try_from(size).unwrap()];
        for (at, bytes) in data {
            let at = usize::try_from(at).unwrap();
            content[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        assert_eq!(tar_content(&archive), content);
        let again = super::support::stack(vec![convert(&archive, &pool(1))]);
        let node = again.lookup(NodeNum::ROOT, b"f").unwrap().unwrap();
        let mut read = vec![1; content.len()];
        assert_eq!(again.read_at(node, 0, &mut read).unwrap(), content.len());
        assert_eq!(read, content);
        assert_eq!(export_layer(&again, 0).unwrap(), archive);
    }
}

#[test]
fn attributes_of_any_name_come_back() {
    let mut layer = builder();
    let set: [(&str, &[u8]); 4] =
        [("user.a=b", b"\0="), ("user.%25", b""), ("trusted.x\n", b"\xff"), ("user.z", b"z")];
    let attributes = layer.xattrs(metadata(0o644, 1, 2, -5, 3), &set);
    layer.file(NodeId::ROOT, b"f", attributes, b"content");
    let blob = layer.build(&plain_options());
    let archive = export_layer(&stack(vec![blob.clone()]), 0).unwrap();
    assert_eq!(convert(&archive, &pool(1)), blob);
}

fn refused(stack: &Stack) -> [ExportError; 2] {
    [export_layer(stack, 0).unwrap_err(), export_tree(stack).unwrap_err()]
}

#[test]
fn names_of_whiteouts_are_refused() {
    let marks: [&[u8]; 4] = [b".wh.x", b".wh.", b".wh..wh..opq", b".wh..wh.plnk"];
    for name in marks {
        let mut layer = builder();
        let directory = layer.directory(NodeId::ROOT, b"d", metadata(0o755, 0, 0, 1, 0));
        layer.fifo(directory, name, metadata(0o644, 0, 0, 1, 0));
        for error in refused(&one(layer)) {
            let ExportError::WhiteoutName { path } = &error else { panic!("{error:?}") };
            assert_eq!(path, &[b"d/", name].concat());
        }
        // A directory of that name, and the whiteout of such a name.
        let mut layer = builder();
        layer.flagged(NodeId::ROOT, name, true, false);
        assert!(matches!(refused(&one(layer))[0], ExportError::WhiteoutName { .. }));
        let mut layer = builder();
        layer.whiteout(NodeId::ROOT, name);
        let error = export_layer(&one(layer), 0).unwrap_err();
        assert!(matches!(error, ExportError::WhiteoutName { .. }), "{error:?}");
    }
    // The same letters anywhere else are a name like another.
    let mut layer = builder();
    layer.fifo(NodeId::ROOT, b"x.wh.y", metadata(0o644, 0, 0, 1, 0));
    assert_eq!(names(&export_layer(&one(layer), 0).unwrap()), ["./", "x.wh.y"]);
}

#[test]
fn sockets_are_refused_or_left_out() {
    let mut layer = builder();
    let socket = layer.socket(NodeId::ROOT, b"s", metadata(0o644, 0, 0, 1, 0));
    let directory = layer.directory(NodeId::ROOT, b"d", metadata(0o755, 0, 0, 1, 0));
    layer.link(directory, b"again", socket);
    layer.fifo(directory, b"pipe", metadata(0o644, 0, 0, 1, 0));
    let stack = one(layer);
    for error in refused(&stack) {
        assert!(matches!(&error, ExportError::Socket { path } if path == b"s"), "{error:?}");
    }
    let options = ExportOptions { skip_sockets: true };
    let layer = export::write_layer(&stack, 0, Vec::new(), &options, &export::Silent).unwrap();
    let tree = export::write_tree(&stack, Vec::new(), &options, &export::Silent).unwrap();
    for (archive, exported) in [layer, tree] {
        assert_eq!(names(&archive), ["./", "d/", "d/pipe"]);
        assert_eq!((exported.members, exported.sockets), (3, 2));
        assert_eq!(exported.first_sockets, [&b"s"[..], b"d/again"]);
    }
}

#[test]
fn what_no_member_can_say_is_refused_by_name() {
    let mut layer = builder();
    layer.symlink(NodeId::ROOT, b"l", metadata(0o777, 0, 0, 1, 0), b"");
    for error in refused(&one(layer)) {
        let ExportError::Member { path, cause: EmitError::Text(_) } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(path, b"l");
    }
    let mut layer = builder();
    let large = vec![0; 65_536];
    let names: Vec<String> = (0..64).map(|number| format!("user.{number}")).collect();
    let set: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &large[..])).collect();
    let attributes = layer.xattrs(metadata(0o644, 0, 0, 1, 0), &set);
    layer.file(NodeId::ROOT, b"f", attributes, b"");
    for error in refused(&one(layer)) {
        let ExportError::Member { path, cause: EmitError::TooLong { .. } } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(path, b"f");
    }
}

/// A sink that takes so many bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_is_told() {
    let mut layer = builder();
    layer.file(NodeId::ROOT, b"f", metadata(0o644, 0, 0, 1, 0), &noise(1, 5000));
    let stack = one(layer);
    let length = export_tree(&stack).unwrap().len();
    let export = |room| {
        let sink = Full(room);
        export::write_tree(&stack, sink, &ExportOptions::default(), &export::Silent)
    };
    for room in (0..length).step_by(100) {
        let error = export(room).unwrap_err();
        assert!(matches!(error, ExportError::Sink(_)), "{error:?}");
    }
    assert_eq!(export(length).unwrap().0.0, 0);
}

fn is_corrupt(cause: &ReadError, rule: Rule, place: Place) -> bool {
    let wanted = FormatError::new(rule, place);
    matches!(cause, ReadError::Corrupt { layer: 0, cause } if *cause == wanted)
}

/// A directory that is in itself is met once.
#[test]
fn hostile_layers_end() {
    let mut layer = builder();
    let outer = layer.directory(NodeId::ROOT, b"outer", metadata(0o755, 0, 0, 1, 0));
    layer.directory(outer, b"inner", metadata(0o755, 0, 0, 1, 0));
    let mut blob = Blob::new(layer.build(&plain_options()));
    let block = blob.section_block(Section::Dentries, 0);
    // Two records in byte planes behind their number: inode 2 becomes 1.
    assert_eq!(blob.block(block)[..6], [2, 0, 0, 0, 1, 2]);
    blob.block(block)[5] = 1;
    let hostile = stack(vec![blob.sign()]);
    for error in refused(&hostile) {
        let ExportError::Read { path, cause } = &error else { panic!("{error:?}") };
        assert_eq!(path, b"outer/inner");
        assert!(is_corrupt(cause, Rule::Tree, Place::Inode(1)), "{error:?}");
    }
    let options = plain_options();
    let squashed = squash(&Arc::new(hostile), Vec::new(), options, pool(1), Arc::new(Silent));
    let Err(SquashError::Read { path, cause }) = squashed else { panic!("{squashed:?}") };
    assert_eq!(path, b"outer/inner");
    assert!(is_corrupt(&cause, Rule::Tree, Place::Inode(1)));
}

#[test]
fn damaged_content_is_never_written() {
    let mut layer = builder();
    layer.file(NodeId::ROOT, b"good", metadata(0o644, 0, 0, 1, 0), &noise(1, 4096));
    layer.file(NodeId::ROOT, b"wrong", metadata(0o644, 0, 0, 1, 0), &noise(2, 10_000));
    let mut bytes = layer.build(&plain_options());
    let mut blob = Blob::new(bytes.clone());
    let at = usize::try_from(blob.pointer(2).offset.get()).unwrap();
    bytes[at] ^= 1;
    let damaged = stack(vec![bytes]);
    for error in refused(&damaged) {
        let ExportError::Read { path, cause } = &error else { panic!("{error:?}") };
        assert_eq!(path, b"wrong");
        assert!(is_corrupt(cause, Rule::BlockDigest, Place::Block(2)), "{error:?}");
    }
    let options = plain_options();
    let squashed = squash(&Arc::new(damaged), Vec::new(), options, pool(2), Arc::new(Silent));
    let Err(SquashError::Write(WriteError::Source(cause))) = squashed else {
        panic!("{squashed:?}");
    };
    let Some(SquashError::Read { path, cause }) = cause.downcast_ref() else { panic!("{cause}") };
    assert_eq!(path, b"wrong");
    assert!(is_corrupt(cause, Rule::BlockDigest, Place::Block(2)));
}

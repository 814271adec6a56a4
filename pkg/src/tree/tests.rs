use super::*;

fn directory() -> Node {
    Node {
        metadata: Metadata::default(),
        kind: NodeKind::Directory { opaque: false, implied: false },
    }
}

fn file() -> Node {
    Node { metadata: Metadata::default(), kind: NodeKind::Regular { size: 0 } }
}

#[test]
fn numbers_in_tree_order_and_counts_links() {
    let mut tree = Tree::new(Metadata::default());
    let b = tree.add(directory()).unwrap();
    let f = tree.add(file()).unwrap();
    let a = tree.add(directory()).unwrap();
    let deep = tree.add(directory()).unwrap();
    tree.link(NodeId::ROOT, b"b", Target::Node(b)).unwrap();
    tree.link(b, b"f", Target::Node(f)).unwrap();
    tree.link(NodeId::ROOT, b"a", Target::Node(a)).unwrap();
    tree.link(a, b"deep", Target::Node(deep)).unwrap();
    tree.link(deep, b"again", Target::Node(f)).unwrap();
    tree.link(NodeId::ROOT, b"gone", Target::Whiteout).unwrap();
    let tree = tree.validate().unwrap();
    assert_eq!(tree.order(), &[NodeId::ROOT, a, b, deep, f]);
    let names: Vec<_> = tree.tree().dentries().iter().map(|d| tree.tree().bytes(d.name)).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"gone", b"deep", b"again", b"f"]);
    assert_eq!((tree.links(0), tree.links(1), tree.links(4)), (4, 3, 2));
    assert_eq!(tree.path(f), b"a/deep/again");
    assert_eq!(tree.children(deep).len(), 1);
}

#[test]
fn rejects_bad_shapes() {
    let mut tree = Tree::new(Metadata::default());
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; 256]] {
        assert!(matches!(
            tree.link(NodeId::ROOT, name, Target::Whiteout),
            Err(TreeError::BadName { .. })
        ));
    }
    let mut twice = tree.clone();
    twice.link(NodeId::ROOT, b"x", Target::Whiteout).unwrap();
    twice.link(NodeId::ROOT, b"x", Target::Whiteout).unwrap();
    assert!(matches!(twice.validate(), Err(TreeError::DuplicateName { .. })));
    let mut orphan = tree.clone();
    orphan.add(file()).unwrap();
    assert_eq!(orphan.validate().unwrap_err(), TreeError::Unreachable);
    let mut cycle = tree.clone();
    let a = cycle.add(directory()).unwrap();
    let b = cycle.add(directory()).unwrap();
    cycle.link(a, b"b", Target::Node(b)).unwrap();
    cycle.link(b, b"a", Target::Node(a)).unwrap();
    assert_eq!(cycle.validate().unwrap_err(), TreeError::Unreachable);
    let f = tree.add(file()).unwrap();
    tree.link(NodeId::ROOT, b"f", Target::Node(f)).unwrap();
    tree.link(f, b"below", Target::Whiteout).unwrap();
    assert!(matches!(tree.validate(), Err(TreeError::ParentNotDirectory { .. })));
}

#[test]
fn interns_xattr_sets_by_content() {
    let mut table = XattrTable::default();
    let pair = |n: &str, v: &str| (n.as_bytes().to_vec(), v.as_bytes().to_vec());
    let one = table.intern(vec![pair("user.a", "1"), pair("user.b", "2")]).unwrap();
    let same = table.intern(vec![pair("user.b", "2"), pair("user.a", "1")]).unwrap();
    let last = table.intern(vec![pair("user.a", "0"), pair("user.b", "2"), pair("user.a", "1")]);
    assert_eq!((one, same), (XattrSetId(1), last.unwrap()));
    assert_eq!(table.intern(Vec::new()).unwrap(), XattrSetId::NONE);
    assert_eq!(table.set(one).len(), 2);
}

#[test]
fn removed_objects_leave_no_trace() {
    let mut tree = Tree::new(Metadata::default());
    let (f, g) = (tree.add(file()).unwrap(), tree.add(file()).unwrap());
    tree.link(NodeId::ROOT, b"f", Target::Node(f)).unwrap();
    tree.link(NodeId::ROOT, b"f2", Target::Node(f)).unwrap();
    tree.link(NodeId::ROOT, b"g", Target::Node(g)).unwrap();
    let mut tree = tree.validate().unwrap().into_tree();
    tree.remove([f, NodeId::ROOT]);
    let tree = tree.validate().unwrap();
    assert_eq!(tree.order(), &[NodeId::ROOT, g]);
    assert_eq!(tree.tree().dentries().len(), 1);
}

#!/usr/bin/env python3
"""Reads microfs blobs; written from pkg/FORMAT.md alone.

  microfs_reader.py list BLOB        every name of a layer
  microfs_reader.py stack BLOB...    every name of the merged tree of layers, the lowest first
  microfs_reader.py verify BLOB...   check every digest and every rule

A line of a listing: path, type, mode, uid, gid, links, size, modification time, device, target,
SHA-256 of the data without the holes, holes, extended attributes in hexadecimal, marks.
"""
import hashlib
import sys
from dataclasses import dataclass, field

from blob import ReadError, RuleError
from check import check
from layer import (
    DIRECTORY, HOLLOW, IMPLIED, KIND_NAMES, LINK_BELOW, OPAQUE, REGULAR, SYMLINK, WHITEOUT, Layer)
from stack import Directory, Stack, Unresolved

__all__ = ["Entry", "Layer", "ReadError", "RuleError", "Stack", "check", "list_layer", "list_stack", "open_layer"]


@dataclass
class Entry:
    """One line of a listing."""

    path: tuple
    kind: int = WHITEOUT
    permissions: int = 0
    uid: int = 0
    gid: int = 0
    links: int = 0
    size: int = 0
    mtime: tuple = (0, 0)
    device: tuple = (0, 0)
    target: bytes | None = None
    sha256: str | None = None
    data: list = field(default_factory=list)  # (start, end) of the runs of data
    xattrs: list = field(default_factory=list)
    marks: list = field(default_factory=list)
    object: object = None  # the same for all names of one object

    def holes(self):
        if self.kind != REGULAR:
            return []
        ends = [0] + [end for _, end in self.data]
        starts = [start for start, _ in self.data] + [self.size]
        return [(end, start) for end, start in zip(ends, starts) if end < start]

    def text(self):
        fields = [
            escape(b"/" + b"/".join(self.path)), KIND_NAMES[self.kind], f"{self.permissions:04o}", self.uid,
            self.gid, self.links, self.size, f"{self.mtime[0]}.{self.mtime[1]:09}",
            f"{self.device[0]}:{self.device[1]}", "-" if self.target is None else escape(self.target),
            self.sha256 or "-", ",".join(f"{start}-{end}" for start, end in self.holes()) or "-",
            ",".join(f"{escape(name)}={value.hex()}" for name, value in self.xattrs) or "-",
            ",".join(self.marks) or "-"]
        return " ".join(map(str, fields))


def escape(text):
    plain = (chr(byte) if 0x20 < byte < 0x7F and byte not in b"\\=," else f"\\x{byte:02x}" for byte in text)
    return "\\x2d" if text == b"-" else "".join(plain)


def open_layer(path):
    with open(path, "rb") as file:
        return Layer(file.read())


def describe(layer, inode, path, key):
    """Entry of an inode."""
    entry = Entry(
        path, inode.kind, inode.permissions, inode.uid, inode.gid, inode.links, inode.size,
        (inode.mtime_seconds, inode.mtime_nanoseconds), inode.device, xattrs=layer.xattrs(inode), object=key)
    if inode.kind in (SYMLINK, LINK_BELOW):
        entry.target = layer.link(inode)
    if inode.kind == REGULAR:
        digest = hashlib.sha256()
        for start, end, data in layer.read(inode):
            if data is None:
                continue
            digest.update(data)
            if entry.data and entry.data[-1][1] == start:
                start = entry.data.pop()[0]
            entry.data.append((start, end))
        entry.sha256 = digest.hexdigest()
    flags = ((OPAQUE, "opaque"), (IMPLIED, "implied"), (HOLLOW, "hollow"))
    entry.marks = [name for flag, name in flags if inode.has(flag)]
    return entry


def list_layer(layer):
    """Entries of a layer as it is, a directory before what is in it, names sorted."""
    todo = [((), layer.inode(0))]
    while todo:
        path, inode = todo.pop()
        if inode is None:
            yield Entry(path)
            continue
        yield describe(layer, inode, path, inode.index)
        if inode.kind == DIRECTORY:
            children = [((*path, dentry.name), None if dentry.kind == WHITEOUT else layer.target(dentry))
                        for dentry in layer.entries(inode)]
            todo += reversed(children)


def list_stack(stack):
    """Entries of the merged tree."""
    entries = []
    names, subdirectories = {}, {}
    for path, thing in stack.walk():
        entry = describe_merged(stack, thing, path)
        entries.append(entry)
        names[entry.object] = names.get(entry.object, 0) + 1
        if entry.kind == DIRECTORY and path:
            subdirectories[path[:-1]] = subdirectories.get(path[:-1], 0) + 1
    for entry in entries:
        is_directory = entry.kind == DIRECTORY
        entry.links = 2 + subdirectories.get(entry.path, 0) if is_directory else names[entry.object]
    return entries


def describe_merged(stack, thing, path):
    if isinstance(thing, Directory):
        found = stack.metadata(len(stack.layers), thing)
        if found is None:
            entry = Entry(path, DIRECTORY, 0o755)
        else:
            layer, inode = found
            entry = describe(stack.layers[layer], inode, path, None)
            entry.size, entry.marks = inode.count, []
    else:
        layer = stack.layers[thing.layer]
        entry = describe(layer, layer.inode(thing.inode), path, None)
    entry.object = stack.number(thing)
    if isinstance(thing, Unresolved):
        entry.marks.append("unresolved")
    return entry


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("list", "stack", "verify"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    verb, *paths = arguments
    try:
        if verb == "verify":
            for place in paths:
                check(open_layer(place))
            return 0
        place = " ".join(paths)
        layers = [open_layer(path) for path in paths]
        for entry in list_stack(Stack(layers)) if verb == "stack" else list_layer(layers[0]):
            print(entry.text())
    except (ReadError, OSError) as error:
        print(f"{place}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

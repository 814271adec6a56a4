"""Layers as one tree (FORMAT.md, section 14). Everything is looked up anew; nothing is fast."""
import hashlib
from collections import namedtuple

from blob import ReadError
from layer import DIRECTORY, HOLLOW, IMPLIED, LINK_BELOW, OPAQUE, SYMLINK, WHITEOUT

MAX_LINKS = 40

# A directory of the stack: path, parts as (layer, inode, redirected), the top-most first, and the
# layer below which no redirected directory shows any more.
Directory = namedtuple("Directory", "path parts floor")
Part = namedtuple("Part", "layer inode redirected")
# Any other object, and a link-below that leads nowhere.
Object = namedtuple("Object", "layer inode")
Unresolved = namedtuple("Unresolved", "layer inode")


def components(path):
    return [name for name in path.split(b"/") if name not in (b"", b".")]


class Stack:
    """Layers, the lowest first."""

    def __init__(self, layers):
        if not 1 <= len(layers) <= 4096:
            raise ReadError("a stack has 1 to 4096 layers")
        self.layers = layers
        self._connect()
        self.bases = [sum(layer.count("Inodes") for layer in layers[:n]) for n in range(len(layers))]
        self.redirected = {}  # (layer, inode) -> path of the target
        self.arrivals = {}  # path -> [(layer, inode)]
        self.targets = {}
        for number in range(len(layers)):
            self._settle(number)

    def _connect(self):
        digests = {}
        for layer in self.layers:
            table = layer.blob_table
            for number, record in enumerate(table):
                other = digests.get(record.blob_sha256)
                if other is None or len(other.data) != record.length:
                    raise ReadError(f"blob {record.blob_sha256.hex()} is no layer below")
                if hashlib.sha256(other.data[-4096:]).digest() != record.superblock_sha256:
                    raise ReadError(f"superblock of blob {record.blob_sha256.hex()}")
                layer.others[number] = other
            digests[hashlib.sha256(layer.data).digest()] = layer

    # "The first `height` layers" is written View(height) below.

    def root(self, height):
        parts, floor = [], 0
        for number in reversed(range(height)):
            parts.append(Part(number, 0, False))
            parts += [Part(*part, True) for part in sorted(self.arrivals.get((), [])) if part[0] == number]
            if self.layers[number].inode(0).has(OPAQUE):
                floor = number
                break
        return Directory((), parts, floor)

    def candidates(self, height, directory, name):
        """(layer, inode or None for a whiteout, redirected) of all that a name may be, the top-most first."""
        path, found = (*directory.path, name), []
        for part in directory.parts:
            layer = self.layers[part.layer]
            dentry = layer.lookup(layer.inode(part.inode), name)
            if dentry and (part.layer, dentry.inode) not in self.redirected:
                found.append((part.layer, None if dentry.kind == WHITEOUT else layer.target(dentry), False))
        found += [(number, self.layers[number].inode(inode), True)
                  for number, inode in sorted(self.arrivals.get(path, [])) if directory.floor <= number < height]
        return sorted(found, key=lambda candidate: -candidate[0])

    def child(self, height, directory, name):
        """What a name of a directory of View(height) stands for, or None."""
        parts, exists, end, cut, floor = [], False, 0, 0, directory.floor
        for number, inode, redirected in self.candidates(height, directory, name):
            if number < end:
                break
            if inode is None or inode.kind != DIRECTORY:
                if inode is not None and not exists:
                    return self.link_below(number, inode) if inode.kind == LINK_BELOW else Object(number, inode.index)
                # Hides what is lower, but no other part of the same layer.
                end = number
                floor = max(floor, number)
                continue
            if number >= cut:
                parts.append(Part(number, inode.index, redirected))
            if not redirected:
                exists = exists or not inode.has(HOLLOW)
                if inode.has(OPAQUE) and number >= cut:
                    cut, floor = number, max(floor, number)
        return Directory((*directory.path, name), parts, floor) if exists else None

    def children(self, height, directory):
        """(name, what it stands for), sorted by name."""
        names = set()
        for part in directory.parts:
            layer = self.layers[part.layer]
            names |= {dentry.name for dentry in layer.entries(layer.inode(part.inode))}
        for name in sorted(names):
            child = self.child(height, directory, name)
            if child is not None:
                yield name, child

    def at(self, height, path):
        """The chain of directories to a path, no link followed, and what the path stands for, or None."""
        chain, here = [], self.root(height)
        for name in path:
            if not isinstance(here, Directory):
                return chain, None
            chain.append(here)
            here = self.child(height, here, name)
        return chain, here

    def resolve(self, height, chain, path, follow_last):
        """What a path leads to from the directory that ends a chain of directories; None if nowhere."""
        found = self.trace(height, chain, path, follow_last)
        return found and found[1]

    def trace(self, height, chain, path, follow_last):
        """The path that is meant, names that are not there taken as they stand, and what it stands for or None;
        None if the way leads through something that is no directory."""
        chain, rest, links, is_there = list(chain), components(path), 0, True
        while rest:
            name = rest.pop(0)
            if name == b"..":
                chain = chain[:-1] or chain
                continue
            found = self.child(height, chain[-1], name) if chain[-1].parts else None
            if found is None:
                found, is_there = Directory((*chain[-1].path, name), [], 0), False
            if isinstance(found, Directory):
                chain.append(found)
                continue
            inode = self.layers[found.layer].inode(found.inode) if isinstance(found, Object) else None
            if not rest and (not follow_last or inode is None or inode.kind != SYMLINK):
                return (*chain[-1].path, name), found
            if inode is None or inode.kind != SYMLINK or links == MAX_LINKS:
                return None
            links += 1
            target = self.layers[found.layer].link(inode)
            if not target:
                return None
            if target.startswith(b"/"):
                chain = chain[:1]
            rest = components(target) + rest
        return chain[-1].path, chain[-1] if is_there else None

    def link_below(self, number, inode):
        """The object that a link-below of a layer stands for."""
        key = number, inode.index
        if key not in self.targets:
            path = self.layers[number].link(inode)
            target = self.resolve(number, [self.root(number)], path, False) if number else None
            if target is None:
                target = self.own(number, components(path))
            self.targets[key] = target if isinstance(target, Object) else Unresolved(*key)
        return self.targets[key]

    def own(self, number, path):
        """The object at a path of a layer alone, or None."""
        layer = self.layers[number]
        inode = layer.inode(0)
        for name in path:
            dentry = layer.lookup(inode, name) if inode.kind == DIRECTORY else None
            if dentry is None or dentry.kind == WHITEOUT:
                return None
            inode = layer.target(dentry)
        return None if inode.kind in (DIRECTORY, LINK_BELOW) else Object(number, inode.index)

    def _settle(self, number):
        """Finds the implied directories of a layer that are redirected by what is below."""
        layer, todo = self.layers[number], [(self.layers[number].inode(0), ())]
        while todo:
            directory, path = todo.pop()
            children = []
            for dentry in layer.entries(directory):
                if dentry.kind != DIRECTORY:
                    continue
                inode, child = layer.target(dentry), (*path, dentry.name)
                target = None
                if number and inode.has(IMPLIED) and not inode.has(OPAQUE):
                    target = self._redirection(number, child)
                if target is not None:
                    child = target
                    self.redirected[number, inode.index] = target
                    self.arrivals.setdefault(target, []).append((number, inode.index))
                children.append((inode, child))
            todo += reversed(children)

    def _redirection(self, number, path):
        chain, found = self.at(number, path)
        if not isinstance(found, Object) or self.layers[found.layer].inode(found.inode).kind != SYMLINK:
            return None
        found = self.trace(number, chain, path[-1], True)
        if found is None or isinstance(found[1], Unresolved):
            return None
        target = found[0]
        # With the layer's own changes.
        _, there = self.at(number + 1, target)
        return target if isinstance(there, Directory) else None

    def metadata(self, height, directory):
        """The inode record whose metadata a directory of View(height) shows, with its layer; or None."""
        for part in directory.parts:
            inode = self.layers[part.layer].inode(part.inode)
            if not inode.has(IMPLIED):
                return part.layer, inode
        below = directory.parts[-1].layer
        if below == 0:
            return None
        _, found = self.at(below, directory.path)
        return self.metadata(below, found) if isinstance(found, Directory) else None

    def number(self, thing):
        """The inode number."""
        if isinstance(thing, Directory):
            if not thing.path:
                return 1
            thing = next(part for part in thing.parts if not part.redirected)
        return 2 + self.bases[thing.layer] + thing.inode

    def walk(self):
        """(path, what it stands for), a directory before what is in it, names sorted."""
        height = len(self.layers)
        todo = [((), self.root(height))]
        while todo:
            path, thing = todo.pop()
            yield path, thing
            if isinstance(thing, Directory):
                todo += reversed([((*path, name), child) for name, child in self.children(height, thing)])

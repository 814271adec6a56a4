"""A directory tree with all that a program can see of it, and how two differ."""
import errno
import hashlib
import os
import stat

from work import require

CHUNK = 1 << 20


def snapshot(root):
    """Attributes of each object below a directory, by path; the directory itself is at the empty path."""
    found, names = {}, {}
    root = os.fsencode(root)
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        status = os.lstat(os.path.join(root, path))
        found[path] = attributes(root, path, status)
        if stat.S_ISDIR(status.st_mode):
            entries = os.listdir(os.path.join(root, path))
            require(len(entries) == len(set(entries)), "a name twice in %r", path)
            waiting.extend(os.path.join(path, name) for name in entries)
        else:
            names.setdefault((status.st_dev, status.st_ino), []).append(path)
    for group in names.values():
        group.sort()
        for path in group:
            found[path]["links"] = group
    return found


def attributes(root, path, status):
    full = os.path.join(root, path)
    mode = status.st_mode
    # Directories have what their filesystem counts: only whether that is plausible is known.
    directory = stat.S_ISDIR(mode)
    seen = {
        "type": stat.S_IFMT(mode),
        "mode": oct(stat.S_IMODE(mode)),
        "owner": (status.st_uid, status.st_gid),
        "size": None if directory else status.st_size,
        "mtime": status.st_mtime_ns,
        "nlink": None if directory else status.st_nlink,
        "rdev": (os.major(status.st_rdev), os.minor(status.st_rdev)),
        "xattrs": xattrs(full),
    }
    if stat.S_ISLNK(mode):
        seen["target"] = os.readlink(full)
    elif stat.S_ISREG(mode):
        seen["content"] = content(full)
    return seen


def xattrs(path):
    names = os.listxattr(path, follow_symlinks=False)
    require(len(names) == len(set(names)), "an attribute twice on %r", path)
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in sorted(names)}


def content(path):
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(CHUNK):
            digest.update(data)
    return digest.hexdigest()


def data_runs(path):
    """Where a file has data, as (start, end)."""
    runs = []
    with open(path, "rb") as file:
        position = 0
        while True:
            try:
                start = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return runs
                raise
            position = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            runs.append((start, position))


def differences(wanted, got):
    """(path, attribute, wanted, got) for everything that is not the same."""
    found = []
    for path in sorted(wanted.keys() | got.keys()):
        if path not in wanted or path not in got:
            found.append((path, "presence", path in wanted, path in got))
            continue
        old, new = wanted[path], got[path]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                found.append((path, name, old.get(name), new.get(name)))
    return found

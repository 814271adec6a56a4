"""What the images must have, counted in the layers themselves: a recipe that no longer makes it is an error."""
import collections
import os
import stat
import tarfile

from layout import layer_tar, manifest
from work import require

OPAQUE = ".wh..wh..opq"
CAPABILITY = "SCHILY.xattr.security.capability"
ACLS = {"SCHILY.xattr.system.posix_acl_access", "SCHILY.xattr.system.posix_acl_default"}


def count(layout, tag):
    """How often each feature occurs in the layers of an image."""
    found = collections.Counter()
    lower = {}
    for descriptor in manifest(layout, tag)["layers"]:
        found["layers"] += 1
        upper = {}
        with layer_tar(layout, descriptor) as archive:
            for entry in archive:
                found["entries"] += 1
                path = os.path.normpath("/" + entry.name)
                count_entry(found, entry, path, lower, upper)
                upper[path] = entry.type
        for path in [path for path in upper if os.path.basename(path).startswith(".wh.")]:
            del upper[path]
        lower.update(upper)
    found["names"] = len(lower)
    return found


def count_entry(found, entry, path, lower, upper):
    parent, name = os.path.split(path)
    found[kind_of(entry)] += 1
    if name == OPAQUE:
        found["opaque"] += 1
    elif name.startswith(".wh."):
        found["whiteout"] += 1
        found["whiteout of a directory"] += lower.get(os.path.join(parent, name[4:])) == tarfile.DIRTYPE
    elif entry.islnk():
        target = os.path.normpath("/" + entry.linkname)
        found["link to a lower layer"] += target not in upper
    elif path in lower:
        found["replaced"] += 1
        found["type change"] += lower[path] != entry.type
    found["through a link"] += parent not in upper and lower.get(parent) == tarfile.SYMTYPE
    found["capability"] += CAPABILITY in entry.pax_headers
    found["acl"] += bool(ACLS & entry.pax_headers.keys())
    found["xattr"] += any(key.startswith("SCHILY.xattr.user.") for key in entry.pax_headers)
    found["nanoseconds"] += "." in entry.pax_headers.get("mtime", "").rstrip("0")
    found["sparse"] += entry.issparse()
    found["setuid"] += bool(entry.mode & stat.S_ISUID)


def kind_of(entry):
    names = {tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "link", tarfile.CHRTYPE: "char",
             tarfile.BLKTYPE: "block", tarfile.FIFOTYPE: "fifo"}
    return names.get(entry.type, "file")


LEAST = {
    "made": {"layers": 6, "opaque": 2, "whiteout": 60, "whiteout of a directory": 3, "link": 15,
             "link to a lower layer": 6, "type change": 15, "through a link": 4, "capability": 4, "acl": 4,
             "xattr": 6, "nanoseconds": 2, "sparse": 3, "setuid": 3, "char": 12, "block": 5, "fifo": 5, "symlink": 10},
    "derived": {"layers": 2, "whiteout": 3, "link": 5, "type change": 1},
    "built": {"layers": 3, "whiteout": 4, "link": 2, "fifo": 1, "type change": 1},
}


def require_all(layout, size):
    """Fails when the images lack anything they are made for, and says what they have."""
    for tag, least in LEAST.items():
        found = count(layout, tag)
        print("images: %s: %s" % (tag, ", ".join("%s %d" % item for item in sorted(found.items()) if item[1])))
        for name, number in least.items():
            require(found[name] >= number, "%s has %d times %r, not %d", tag, found[name], name, number)
        if size == "large":
            require(found["names"] > 20_000, "%s has only %d files", tag, found["names"])

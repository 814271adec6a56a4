"""The root filesystem of the tests, images of it, and comparisons that know nothing of microfs."""
import functools
import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from machine import WORK, microfs, need, run

HERE = Path(__file__).resolve().parent
MADE = os.environ["MADE"]

LAYOUT = WORK / "images"
# Every owner as it is; all of it root's; all of it the ordinary user's.
TRUE, ROOTS, USERS = (f"{LAYOUT}:{tag}" for tag in ("true", "roots", "users"))
# Who the ordinary user is.
USER = 54_321

# What inside.sh leaves in /srv/tree.
TREE = ("./emptied ./emptied/new ./fifo ./file ./link ./mode ./moved ./moved/kept ./replaced ./swapped "
        "./swapped/other \nfile\nmore\nfile\nmore\nnew\nkept\nswapped\n644 2\n600 1\n")
STARTS = "shell of user {user}\npython works\n"


def facts(what, user=0, setuid=False, users=False):
    """What inside.sh is to print."""
    text = STARTS.format(user=user)
    if what == "first":
        text += "Hello, world!\nperl 42\nperl has 2 names\npackages intact\n" + TREE
    elif what == "later":
        text += "Hello, world!\nperl 42\npackages intact\n" + TREE
    else:
        text += "packages intact\nRead-only file system\n"
    if users:
        text += "nobody reads\n"
    if setuid:
        text += "nobody becomes 0\n"
        text += "" if what == "look" else "nobody gave to 65534\n"
    return text + "done\n"


def packages():
    return sorted(Path(f"{MADE}.debs").glob("*.deb"))


def make_repository(at):
    """A repository as apt-ftparchive makes it: each package's own words, and where it is."""
    at.mkdir()
    index = ""
    for package in packages():
        shutil.copy(package, at)
        content = package.read_bytes()
        index += run("dpkg-deb", "--field", package)
        index += f"Filename: ./{package.name}\nSize: {len(content)}\n"
        index += f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n"
    (at / "Packages").write_text(index)


@functools.cache
def rootfs():
    """A Debian root filesystem as a directory, with a repository of packages to install, and inside.sh."""
    need(dpkg_deb="dpkg", setcap="libcap2-bin", tar="tar")
    root = WORK / "rootfs"
    root.mkdir()
    run("tar", "--extract", "--file", f"{MADE}.tar", "--directory", root, "--numeric-owner",
        "--preserve-permissions", "--xattrs", "--xattrs-include=*")
    make_repository(root / "srv/repository")
    apt = root / "etc/apt"
    for file in (apt / "sources.list.d").iterdir():
        file.unlink()
    (apt / "sources.list").write_text("deb [trusted=yes] file:/srv/repository ./\n")
    shutil.copy(HERE / "inside.sh", root / "srv/inside")
    for name in ("id", "chown"):
        shutil.copy(root / "usr/bin" / name, root / "srv" / f"{'setuid' if name == 'id' else 'capable'}-{name}")
    (root / "srv/setuid-id").chmod(0o4755)
    run("setcap", "cap_chown+ep", root / "srv/capable-chown")
    tree = root / "srv/tree"
    for name in ("file", "gone", "mode", "replaced", "emptied/a", "emptied/b/c", "old/kept", "swapped/swapped"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"{Path(name).name}\n")
    # Container engines make these where they are missing, which a read-only mount does not let them.
    os.symlink("/proc/mounts", root / "etc/mtab")
    for name in ("etc/hosts", "etc/resolv.conf", "run/.containerenv"):
        (root / name).touch()
    return root


@functools.cache
def images():
    """Builds all images, once."""
    for image, options in ((TRUE, []), (ROOTS, ["--all-root"]), (USERS, ["--owner", f"{USER}:{USER}"])):
        microfs("build", "--quiet", "--compression", "zstd:1", *options, rootfs(), image)
    return files(LAYOUT)


def files(directory):
    """Digest of every file below a directory, by name."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                found[str(path.relative_to(directory))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def check_images_are_as_built():
    """Whatever containers did: the layout is what it was, whole, and has what the source has."""
    if files(LAYOUT) != images():
        raise AssertionError("the layout was changed")
    for image in (TRUE, ROOTS, USERS):
        microfs("check", "--quiet", image)
    microfs("diff", TRUE, rootfs())


# Not in a comparison: times, the marks of overlays, and the little that each run of apt makes differently.
TAR = ["tar", "--create", "--sort=name", "--numeric-owner", "--mtime=@0", "--xattrs", "--xattrs-include=*",
       "--xattrs-exclude=trusted.overlay.*", "--xattrs-exclude=user.overlay.*", "--exclude=./var/log",
       "--exclude=./var/cache"]


def members(archive):
    """What GNU tar wrote of a tree: names, types, owners, modes, links, attributes, content."""
    found = {}
    with tarfile.open(archive) as entries:
        for entry in entries:
            data = entries.extractfile(entry) if entry.isreg() else None
            digest = hashlib.file_digest(data, "sha256").hexdigest() if data else ""
            attributes = sorted(pair for pair in entry.pax_headers.items() if pair[0].startswith("SCHILY.xattr."))
            found[entry.name] = (
                entry.type, oct(entry.mode), entry.uid, entry.gid, entry.size, entry.linkname,
                (entry.devmajor, entry.devminor), attributes, digest)
    return found


def content(root):
    """The same of a directory."""
    archive = WORK / "content.tar"
    run(*TAR, "--directory", root, "--file", archive, ".")
    found = members(archive)
    archive.unlink()
    return found


def differences(wanted, found):
    """Lines that tell two such contents apart."""
    names = sorted(set(wanted) | set(found))
    return [f"{name}: {wanted.get(name)} -> {found.get(name)}" for name in names
            if wanted.get(name) != found.get(name)]

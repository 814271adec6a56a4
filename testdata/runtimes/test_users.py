"""Mounts by an ordinary user, and what such a user runs on them."""
import contextlib
import os
import shutil
import subprocess

from machine import NAME, PROGRAM, WORK, Case, need, run
from trees import (ROOTS, TAR, TRUE, USER, USERS, check_images_are_as_built, content, differences, facts, images,
                   members, rootfs)

LOGIN = "ordinary"
HOME = WORK / "home"
# Short: podman wants less than 50 bytes.
RUN = WORK / "u"
BIN = WORK / "bin/microfs"
# Runs what follows in the directory "mount" as its root filesystem, in the namespaces it is called in.
CHROOT = """
for name in dev proc; do mount --rbind /$name mount/$name; done
chroot mount /bin/sh /srv/inside "$@"
umount -l mount/dev mount/proc
"""


def setUpModule():
    need(unshare="util-linux", setpriv="util-linux", newuidmap="uidmap", bwrap="bubblewrap",
         ch_run="charliecloud-runtime", runc="runc", crun="crun", podman="podman", fusermount3="fuse3",
         fuse_overlayfs="fuse-overlayfs")
    images()
    # A copy that everybody reaches.
    BIN.parent.mkdir()
    shutil.copy(PROGRAM, BIN)
    # The device as distributions have it, and a user with subordinate ids; in this mount namespace alone.
    run("mknod", "--mode=666", WORK / "fuse", "c", "10", "229")
    run("mount", "--bind", WORK / "fuse", "/dev/fuse")
    for name in ("etc", "etc.work"):
        (WORK / name).mkdir()
    layers = f"lowerdir=/etc,upperdir={WORK}/etc,workdir={WORK}/etc.work"
    run("mount", "-t", "overlay", "-o", layers, "etc", "/etc")
    lines = {"passwd": f"{LOGIN}:x:{USER}:{USER}::{HOME}:/bin/sh", "group": f"{LOGIN}:x:{USER}:",
             "subuid": f"{LOGIN}:200000:65536", "subgid": f"{LOGIN}:200000:65536"}
    for name, line in lines.items():
        with open(f"/etc/{name}", "a", encoding="ascii") as file:
            file.write(line + "\n")


def tearDownModule():
    check_images_are_as_built()
    run("umount", "/etc")
    run("umount", "/dev/fuse")


class Users(Case):
    """All of it is done in the user's home."""

    def setUp(self):
        for directory, mode in ((HOME, 0o755), (RUN, 0o700)):
            directory.mkdir(mode=mode)
            # Done last, when no server is left that removes something there.
            self.addCleanup(shutil.rmtree, directory)
            os.chown(directory, USER, USER)
        super().setUp()
        (HOME / "mount").mkdir()
        os.chown(HOME / "mount", USER, USER)

    def user(self, *words, **options):
        environment = {"PATH": f"{BIN.parent}:{os.environ['PATH']}", "HOME": str(HOME), "USER": LOGIN,
                       "TMPDIR": str(HOME), "XDG_RUNTIME_DIR": str(RUN), "LANG": "C.UTF-8"}
        ids = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
        return run("setpriv", *ids, *words, cwd=HOME, env=environment, **options)

    def namespace(self, options, script, *words):
        """Runs a script as root of a user namespace that the user makes."""
        return self.user("unshare", *options, "sh", "-e", "-c", script, "sh", *words)

    @contextlib.contextmanager
    def user_mounted(self, image, *options):
        self.user("microfs", "mount", *options, image, "mount")
        try:
            yield
        except BaseException:
            subprocess.run(["umount", "--lazy", HOME / "mount"], check=False)
            raise
        self.user("microfs", "umount", "mount")


class Namespaces(Users):
    def test_one_id(self):
        """An image of root's files alone fits a namespace with root alone."""
        options = ["--map-root-user", "--user", "--mount"]
        script = f'microfs mount --persist kept {ROOTS} mount; {CHROOT} microfs umount mount'
        self.assertEqual(self.namespace(options, script, "first"), facts("first"))
        self.assertTrue((HOME / "kept/upper/usr/bin/hello").is_file())
        self.assertEqual(self.namespace(options, script, "later"), facts("later"))
        script = f'microfs mount {ROOTS} mount; {CHROOT} microfs umount mount'
        self.assertEqual(self.namespace(options, script, "look"), facts("look"))

    def test_all_ids(self):
        """With subordinate ids it is all as root has it, down to the last attribute."""
        options = ["--map-root-user", "--map-auto", "--mount"]
        script = f'microfs mount --persist kept {TRUE} mount; {CHROOT} microfs umount mount'
        self.assertEqual(self.namespace(options, script, "first", "users"), facts("first", users=True))
        self.assertEqual(self.namespace(options, script, "later", "users"), facts("later", users=True))
        script = f"""microfs mount --persist kept {TRUE} mount
            "$@" --directory mount --file mounted.tar .
            microfs umount mount"""
        self.namespace(options, script, *TAR)
        found = members(HOME / "mounted.tar")
        # The same done by root, without microfs.
        run("cp", "--archive", rootfs(), self.dir / "mount")
        for what in ("first", "later"):
            said = run("unshare", "--mount", "sh", "-e", "-c", CHROOT, "sh", what, "users", cwd=self.dir)
            self.assertEqual(said, facts(what, users=True))
        self.assertEqual(differences(content(self.dir / "mount"), found), [])


class Sandboxes(Users):
    def test_bubblewrap(self):
        box = ["bwrap", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-all"]
        inside = ["/bin/sh", "/srv/inside"]
        with self.user_mounted(TRUE):
            found = self.user(*box[:1], "--ro-bind", "mount", "/", *box[1:], *inside, "look")
            self.assertEqual(found, facts("look", user=USER))
        roots = ["bwrap", "--bind", "mount", "/", *box[1:], "--uid", "0", "--gid", "0", *inside]
        with self.user_mounted(USERS, "--persist", "kept"):
            self.assertEqual(self.user(*roots, "first"), facts("first"))
        self.assertTrue((HOME / "kept/upper/usr/bin/hello").is_file())
        with self.user_mounted(USERS, "--persist", "kept"):
            self.assertEqual(self.user(*roots, "later"), facts("later"))

    def test_bubblewrap_in_a_namespace(self):
        script = f"""microfs mount --writable {ROOTS} mount
            bwrap --bind mount / --proc /proc --dev /dev --tmpfs /tmp --unshare-pid /bin/sh /srv/inside first
            microfs umount mount"""
        found = self.namespace(["--map-root-user", "--user", "--mount"], script)
        self.assertEqual(found, facts("first"))

    def test_charliecloud(self):
        with self.user_mounted(TRUE):
            found = self.user("ch-run", "mount", "--", "/bin/sh", "/srv/inside", "look")
            self.assertEqual(found, facts("look", user=USER))
        roots = ["ch-run", "--write", "--uid=0", "--gid=0", "mount", "--", "/bin/sh", "/srv/inside"]
        with self.user_mounted(USERS, "--persist", "kept"):
            self.assertEqual(self.user(*roots, "first"), facts("first"))
        self.assertTrue((HOME / "kept/upper/usr/bin/hello").is_file())
        with self.user_mounted(USERS, "--persist", "kept"):
            self.assertEqual(self.user(*roots, "later"), facts("later"))


class Runtimes(Users):
    def bundle(self, prefix, image, words, wanted):
        for runtime in ("runc", "crun"):
            self.user(*prefix, "sh", "-e", "-c", f"""
                microfs bundle {image} bundle -- /bin/sh /srv/inside {words}
                {runtime} --root {RUN}/{runtime} run --bundle bundle {NAME}-{runtime} >said
                microfs bundle --remove bundle""")
            self.assertEqual((HOME / "said").read_text(), wanted, runtime)

    def test_bundles(self):
        self.bundle([], USERS, "first", facts("first"))

    def test_bundles_in_a_namespace(self):
        prefix = ["unshare", "--map-root-user", "--map-auto", "--mount"]
        self.bundle(prefix, TRUE, "first users", facts("first", users=True))

    def test_podman(self):
        podman = ["podman", "--cgroup-manager=cgroupfs", "--events-backend=file", "--log-level=error", "--runtime=crun",
                  "--root", HOME / "graph", "--runroot", RUN / "c", "--storage-driver=vfs"]
        options = ["--rm", "--network=none", "--cgroups=disabled", "--ulimit=nofile=1024:1024",
                   "--ulimit=nproc=1024:1024", "--rootfs", HOME / "mount"]
        inside = ["/bin/sh", "/srv/inside"]
        try:
            with self.user_mounted(USERS, "--persist", "kept"):
                found = self.user(*podman, "run", *options, *inside, "first")
                self.assertEqual(found, facts("first"))
            with self.user_mounted(USERS, "--persist", "kept"):
                found = self.user(*podman, "run", *options, *inside, "later")
                self.assertEqual(found, facts("later"))
        finally:
            # podman keeps a process for its namespace.
            self.user(*podman, "system", "migrate")

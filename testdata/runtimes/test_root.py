"""Container runtimes on mounts and bundles, run by root."""
import contextlib
import json
import os
import shutil
import subprocess
import threading

from machine import NAME, PATIENCE, PROGRAM, WORK, Case, microfs, need, refused, run, wait_until
from trees import LAYOUT, TRUE, check_images_are_as_built, content, differences, facts, images, rootfs

INSIDE = ["/bin/sh", "/srv/inside"]
WHAT = ["users", "setuid"]
# Limits that need no privilege to grant.
PODMAN = ["podman", "--cgroup-manager=cgroupfs", "--events-backend=file", "--log-level=error"]
PODMAN_RUN = ["--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
              f"--cgroup-parent=/{NAME}"]


def setUpModule():
    need(runc="runc", crun="crun", podman="podman", conmon="conmon")
    images()
    configuration = WORK / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{WORK}/run"\ngraphroot = "{WORK}/graph"\n')
    os.environ["CONTAINERS_STORAGE_CONF"] = str(configuration)


def tearDownModule():
    check_images_are_as_built()


def low_level(runtime):
    """Runs runc or crun on a bundle."""
    def start(bundle, name):
        manager = ["--cgroup-manager=cgroupfs"] if runtime == "crun" else []
        return run(runtime, *manager, "--root", WORK / runtime, "run", "--bundle", bundle, f"{NAME}-{name}")
    return start


def podman(runtime, root, *words, options=()):
    return run(*PODMAN, f"--runtime={runtime}", "run", *PODMAN_RUN, *options, "--rootfs", root, *words)


def with_command(bundle, words, **changes):
    """Sets a bundle's command, and other fields."""
    file = bundle / "config.json"
    config = json.loads(file.read_text())
    config["process"] |= {"args": words, "terminal": False}
    if changes:
        # What runc's own template leaves out, and Debian's packages need.
        config |= changes
        kinds = ("bounding", "effective", "permitted")
        names = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETFCAP", "SYS_CHROOT"]
        config["process"]["capabilities"] = {kind: [f"CAP_{name}" for name in names] for kind in kinds}
        config["process"]["noNewPrivileges"] = False
        config["process"]["rlimits"] = []
    file.write_text(json.dumps(config))


def runtime_template(directory, root, words, read_only=False):
    """A bundle as `runc spec` makes it, on any root filesystem."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").unlink(missing_ok=True)
    run("runc", "spec", "--bundle", directory)
    with_command(directory, words, root={"path": str(root), "readonly": read_only})


def on_terminal(words):
    """Runs a command on a terminal; gives its exit code and the words it writes."""
    ours, its = os.openpty()
    with subprocess.Popen(words, stdin=its, stdout=its, stderr=its, start_new_session=True) as process:
        os.close(its)
        said = b""
        # Reading fails when no process has the terminal any more.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 4096):
                said += chunk
        os.close(ours)
        return process.wait(timeout=PATIENCE), said.decode().split()


class Runtimes(Case):
    """Each runtime, on microfs and on a plain directory: both are to be the same in the end."""

    def upper_has_the_changes(self, upper):
        for name in ("usr/bin/hello", "var/lib/dpkg/status", "usr/bin/perl", "srv/tree/link"):
            self.assertTrue((upper / name).is_file(), f"{name} is not among the changes")
        self.assertFalse(os.path.lexists(upper / "usr/bin/python3"), "what nobody changed is among the changes")

    def on_a_plain_directory(self, start):
        """What is there after the same was run without microfs."""
        plain = self.dir / "plain"
        run("cp", "--archive", rootfs(), plain)
        self.assertEqual(start(plain, [*INSIDE, "first", *WHAT]), facts("first", users=True, setuid=True))
        wanted = content(plain)
        shutil.rmtree(plain)
        return wanted

    def check(self, start):
        """`start` runs a command in a root filesystem."""
        wanted = self.on_a_plain_directory(start)
        kept = self.dir / "kept"
        with self.mounted("--persist", kept, image=TRUE) as at:
            self.assertEqual(start(at, [*INSIDE, "first", *WHAT]), facts("first", users=True, setuid=True))
        self.upper_has_the_changes(kept / "upper")
        with self.mounted("--persist", kept, image=TRUE) as at:
            # Not before: overlayfs changes the number of an inode that it copies up while that is in memory.
            self.assertEqual(differences(wanted, content(at)), [])
            self.assertEqual(start(at, [*INSIDE, "later", *WHAT]), facts("later", users=True, setuid=True))

    def check_low_level(self, runtime):
        def start(root, words):
            runtime_template(self.dir / "template", root, words)
            return low_level(runtime)(self.dir / "template", "template")
        self.check(start)

    def test_runc(self):
        self.check_low_level("runc")

    def test_crun(self):
        self.check_low_level("crun")

    def test_podman_with_runc(self):
        self.check(lambda root, words: podman("runc", root, *words))

    def test_podman_with_crun(self):
        self.check(lambda root, words: podman("crun", root, *words))


class Bundles(Case):
    """`microfs bundle`: runtimes take it as it is."""

    def check(self, start):
        bundle = self.dir / "bundle"
        microfs("bundle", "--hostname", "of-the-bundle", TRUE, bundle, "--", *INSIDE, "first", *WHAT)
        self.assertEqual(start(bundle), facts("first", users=True, setuid=True))
        self.assertTrue((bundle / "changes/upper/usr/bin/hello").is_file())
        with_command(bundle, [*INSIDE, "later", *WHAT])
        self.assertEqual(start(bundle), facts("later", users=True, setuid=True))
        refused(PROGRAM, "bundle", TRUE, bundle)
        microfs("bundle", "--remove", bundle)
        self.assertFalse(bundle.exists())

    def test_runc(self):
        self.check(lambda bundle: low_level("runc")(bundle, "bundle"))

    def test_crun(self):
        self.check(lambda bundle: low_level("crun")(bundle, "bundle"))

    def test_podman(self):
        def start(bundle):
            config = json.loads((bundle / "config.json").read_text())
            return podman("runc", bundle / "rootfs", *config["process"]["args"])
        self.check(start)

    def test_names_codes_and_terminals(self):
        bundle = self.dir / "bundle"
        said = "hostname; pwd; id -un; if test -t 0; then tty; echo $TERM; fi; exit 7"
        wanted = ["of-the-bundle", "/", "root"]
        for runtime in (["runc"], ["crun", "--cgroup-manager=cgroupfs"]):
            words = [*runtime, "--root", WORK / "names", "run", "--bundle", bundle, f"{NAME}-names"]
            microfs("bundle", "--hostname", "of-the-bundle", TRUE, bundle, "--", "/bin/sh", "-c", said)
            self.assertEqual(run(*words, code=7).split(), wanted)
            microfs("bundle", "--remove", bundle)
            microfs("bundle", "--terminal", "--hostname", "of-the-bundle", TRUE, bundle, "--", "/bin/sh", "-c", said)
            self.assertEqual(on_terminal(words), (7, [*wanted, "/dev/pts/0", "xterm"]))
            microfs("bundle", "--remove", bundle)

    def test_life_of_a_container(self):
        """Created, started, entered, ended by a signal and deleted, as an engine does it."""
        for runtime in (["runc"], ["crun", "--cgroup-manager=cgroupfs"]):
            bundle = self.dir / "bundle"
            microfs("bundle", TRUE, bundle, "--", "/usr/bin/sleep", "100")
            words, name = [*runtime, "--root", WORK / "life"], f"{NAME}-life"
            log = open(self.dir / "log", "wb")
            with log:
                # The container keeps the streams it is given.
                subprocess.run([*words, "create", "--bundle", bundle, name], check=True, stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log, timeout=PATIENCE)
            run(*words, "start", name)
            found = run(*words, "exec", name, *INSIDE, "first", *WHAT)
            self.assertEqual(found, facts("first", users=True, setuid=True))
            run(*words, "kill", name, "KILL")
            wait_until(lambda: json.loads(run(*words, "state", name))["status"] == "stopped", lambda: "still running")
            run(*words, "delete", name)
            microfs("bundle", "--remove", bundle)


class Mounts(Case):
    def test_changes_of_a_temporary_mount_are_lost(self):
        environment = os.environ | {"TMPDIR": str(self.dir)}
        at = self.dir / "mount"
        at.mkdir()
        for _ in range(2):
            microfs("mount", "--writable", TRUE, at, env=environment)
            # The second says if hello is there before.
            found = podman("crun", at, *INSIDE, "first", *WHAT)
            self.assertEqual(found, facts("first", users=True, setuid=True))
            microfs("umount", at)

    def test_read_only(self):
        with self.mounted(image=TRUE) as at:
            for runtime in ("runc", "crun"):
                bundle = self.dir / runtime
                runtime_template(bundle, at, [*INSIDE, "look", *WHAT], read_only=True)
                found = low_level(runtime)(bundle, "read-only")
                self.assertEqual(found, facts("look", users=True, setuid=True))
                found = podman(runtime, at, *INSIDE, "look", *WHAT, options=["--read-only"])
                self.assertEqual(found, facts("look", users=True, setuid=True))

    def test_many_containers_on_one_read_only_mount(self):
        """podman makes an overlay of its own for each."""
        with self.mounted(image=TRUE) as at:
            found = {}

            def start(number):
                runtime = ("runc", "crun")[number % 2]
                try:
                    found[number] = podman(runtime, f"{at}:O", *INSIDE, "first", *WHAT)
                except AssertionError as error:
                    found[number] = str(error)
            threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wanted = facts("first", users=True, setuid=True)
            self.assertEqual(found, dict.fromkeys(range(4), wanted))

    def test_a_running_container_keeps_what_it_has(self):
        """Whatever is done to layout and mount point meanwhile; the server ends after it."""
        def idle(at):
            wait_until(lambda: not os.path.ismount(at), lambda: "idle, and still mounted")
        ways = (([], lambda at: microfs("umount", at)), (["--timeout", "1"], idle))
        for options, take_down in ways:
            layout, bundle, at = (self.dir / name for name in ("layout", "bundle", "mount"))
            shutil.copytree(LAYOUT, layout)
            at.mkdir(exist_ok=True)
            microfs("mount", "--writable", *options, f"{layout}:true", at)
            runtime_template(bundle, at, ["/bin/sh", "-c", "echo up; read line; sh /srv/inside first users setuid"])
            words = ["runc", "--root", WORK / "runc", "run", "--bundle", bundle, f"{NAME}-running"]
            pipe = subprocess.PIPE
            with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as container:
                self.assertEqual(container.stdout.readline(), "up\n")
                shutil.rmtree(layout)
                take_down(at)
                out, err = container.communicate("go\n", timeout=PATIENCE)
            self.assertEqual((container.returncode, out), (0, facts("first", users=True, setuid=True)), err)

    def test_exported_images_run(self):
        """What export gives is an image as any other."""
        ordinary = self.dir / "ordinary"
        microfs("export", "--quiet", "--compression", "none", TRUE, f"{ordinary}:t")
        # podman names it after the path, which here is lower case.
        name = run(*PODMAN, "pull", "--quiet", "oci:ordinary:t", cwd=self.dir).strip()
        try:
            found = run(*PODMAN, "--runtime=crun", "run", *PODMAN_RUN, name, *INSIDE, "first", *WHAT)
            self.assertEqual(found, facts("first", users=True, setuid=True))
        finally:
            subprocess.run([*PODMAN, "rmi", "--force", name], check=True, stdout=subprocess.DEVNULL)

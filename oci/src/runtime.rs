//! The `config.json` of an OCI runtime bundle (OCI runtime specification 1.0)
//! from an image config.

use serde_json::{Value, json};

use crate::config::ConfigOptions;

/// Who the process runs as, resolved in the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeUser {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub additional: Vec<u32>,
    /// Home directory, for `HOME` where the image does not set it.
    pub home: Option<String>,
}

/// What a bundle adds to an image config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleOptions {
    /// Command in place of the image's `cmd`; the entrypoint stays.
    pub args: Vec<String>,
    /// Whether the process has a terminal.
    pub terminal: bool,
    /// Host name in the container.
    pub hostname: String,
    /// Ids outside the container for an ordinary user: (user, group). Adds a
    /// user namespace that maps root to them.
    pub rootless: Option<(u32, u32)>,
}

/// Capabilities that engines give a container by default.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

const MASKED: [&str; 8] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/scsi",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The document for a bundle whose root filesystem is its folder `rootfs`.
#[must_use]
pub fn bundle_config(image: &ConfigOptions, user: &RuntimeUser, options: &BundleOptions) -> Value {
    let mut args = image.entrypoint.clone().unwrap_or_default();
    if options.args.is_empty() {
        args.extend(image.cmd.iter().flatten().cloned());
    } else {
        args.extend(options.args.iter().cloned());
    }
    if args.is_empty() {
        args.push("sh".to_owned());
    }
    let mut env = image.env.clone();
    let has = |env: &[String], name: &str| env.iter().any(|entry| entry.starts_with(name));
    if !has(&env, "PATH=") {
        env.push(DEFAULT_PATH.to_owned());
    }
    if options.terminal && !has(&env, "TERM=") {
        env.push("TERM=xterm".to_owned());
    }
    if !has(&env, "HOME=") {
        env.push(format!("HOME={}", user.home.as_deref().unwrap_or("/")));
    }
    let cwd = image.working_dir.as_deref().filter(|dir| dir.starts_with('/')).unwrap_or("/");
    let mut namespaces = vec![
        json!({"type": "pid"}),
        json!({"type": "ipc"}),
        json!({"type": "uts"}),
        json!({"type": "mount"}),
        json!({"type": "network"}),
    ];
    let mut linux = json!({
        "resources": {"devices": [{"allow": false, "access": "rwm"}]},
        "maskedPaths": MASKED,
        "readonlyPaths": READ_ONLY,
    });
    if let (Some((uid, gid)), Some(linux)) = (options.rootless, linux.as_object_mut()) {
        namespaces.push(json!({"type": "user"}));
        let map = |id: u32| json!([{"containerID": 0, "hostID": id, "size": 1}]);
        linux.insert("uidMappings".to_owned(), map(uid));
        linux.insert("gidMappings".to_owned(), map(gid));
        linux.remove("resources");
    }
    if let Some(linux) = linux.as_object_mut() {
        linux.insert("namespaces".to_owned(), Value::Array(namespaces));
    }
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": options.terminal,
            "user": {"uid": user.uid, "gid": user.gid, "additionalGids": user.additional},
            "args": args,
            "env": env,
            "cwd": cwd,
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
            },
            "noNewPrivileges": false,
        },
        "root": {"path": "rootfs", "readonly": false},
        "hostname": options.hostname,
        "mounts": mounts(options.rootless.is_some()),
        "linux": linux,
    })
}

fn mounts(rootless: bool) -> Value {
    let mut pts = vec!["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    if !rootless {
        pts.push("gid=5");
    }
    let sys = if rootless {
        // sysfs cannot be mounted without a network namespace of one's own.
        json!({"destination": "/sys", "type": "none", "source": "/sys",
               "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]})
    } else {
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs",
               "options": ["nosuid", "noexec", "nodev", "ro"]})
    };
    json!([
        {"destination": "/proc", "type": "proc", "source": "proc",
         "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": pts},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
         "options": ["nosuid", "noexec", "nodev"]},
        sys,
    ])
}

/// Why a user cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// The image has no such user.
    #[error("the image has no user {0:?} in /etc/passwd")]
    NoUser(String),
    /// The image has no such group.
    #[error("the image has no group {0:?} in /etc/group")]
    NoGroup(String),
}

/// Resolves the user of an image config: `user`, `uid`, and either with
/// `:group` or `:gid`; empty is root. `passwd` and `group` are the image's
/// files, empty where it has none.
///
/// # Errors
/// [`UserError`] for names that are not in them.
pub fn resolve_user(text: &str, passwd: &str, group: &str) -> Result<RuntimeUser, UserError> {
    let (name, group_name) = text.split_once(':').map_or((text, None), |(u, g)| (u, Some(g)));
    let number = name.parse::<u32>().ok();
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let id = |text: Option<&String>| text.and_then(|text| text.parse::<u32>().ok());
    let entry = passwd.lines().map(fields).find(|fields| match number {
        Some(uid) => id(fields.get(2)) == Some(uid),
        None => fields.first().is_some_and(|found| found == name),
    });
    let mut user = RuntimeUser::default();
    match (&entry, number) {
        (Some(fields), _) => {
            user.uid = id(fields.get(2)).unwrap_or(0);
            user.gid = id(fields.get(3)).unwrap_or(0);
            user.home = fields.get(5).filter(|home| !home.is_empty()).cloned();
        }
        (None, Some(uid)) => user.uid = uid,
        (None, None) if name.is_empty() => {}
        (None, None) => return Err(UserError::NoUser(name.to_owned())),
    }
    let groups: Vec<_> = group.lines().map(fields).collect();
    match group_name.filter(|name| !name.is_empty()) {
        Some(wanted) => {
            let found = groups.iter().find(|fields| fields.first().is_some_and(|g| g == wanted));
            let gid = wanted.parse().ok().or_else(|| found.and_then(|fields| id(fields.get(2))));
            user.gid = gid.ok_or_else(|| UserError::NoGroup(wanted.to_owned()))?;
        }
        None => {
            let own = entry.as_ref().and_then(|fields| fields.first());
            let member = |fields: &&Vec<String>| {
                let members = fields.get(3).map(|list| list.split(',')).into_iter().flatten();
                own.is_some_and(|own| members.clone().any(|member| member == own))
            };
            let more = groups.iter().filter(member).filter_map(|fields| id(fields.get(2)));
            user.additional = more.filter(|gid| *gid != user.gid).collect();
        }
    }
    Ok(user)
}

#[cfg(test)]
mod tests;

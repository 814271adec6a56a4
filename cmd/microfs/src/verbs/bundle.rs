//! `microfs bundle`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use microfs::stack::{Stack, StackOptions};
use microfs_fuse::background::{self, BackgroundError};
use microfs_fuse::{Unmount, UnmountError, unmount};
use microfs_oci::runtime::{BundleOptions, bundle_config, resolve_user};

use super::path::find;
use crate::exit::Outcome;
use crate::image;
use crate::options::PlatformArgs;

/// Make a runtime bundle that runc and crun start as it is
///
/// Writes BUNDLE/config.json from the image config and mounts the image,
/// writable, on BUNDLE/rootfs. `--remove BUNDLE` takes it down again.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the directory to make
    #[arg(num_args = 2..=3, value_names = ["OCI-DIR[:TAG]", "BUNDLE"], required_unless_present = "remove")]
    words: Vec<OsString>,
    /// Unmount a bundle and delete it, with the changes made in it
    #[arg(long, value_name = "BUNDLE", conflicts_with = "words")]
    remove: Option<PathBuf>,
    /// Give the process a terminal
    #[arg(long, short)]
    terminal: bool,
    /// Host name in the container
    #[arg(long, value_name = "NAME", default_value = "microfs")]
    hostname: String,
    /// Command in place of the image's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// Bytes of `/etc/passwd` or `/etc/group` that are read.
const FILE_MAX: usize = 1 << 20;

/// Makes or removes a bundle.
pub fn run(args: &BundleArgs) -> anyhow::Result<Outcome> {
    if let Some(bundle) = &args.remove {
        return remove(bundle);
    }
    let (reference, rest) = image::split(&args.words, 1)?;
    let [bundle] = rest else { bail!("a directory for the bundle is missing") };
    let bundle = std::path::absolute(Path::new(bundle))?;
    let platform = args.platform.request();
    let opened = image::open(&reference, &platform, &StackOptions::default())?;
    let options = opened.image.options()?;
    let passwd = file(&opened.stack, "/etc/passwd")?;
    let group = file(&opened.stack, "/etc/group")?;
    let user = resolve_user(options.user.as_deref().unwrap_or(""), &passwd, &group)?;
    let is_root = rustix::process::geteuid().is_root();
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let bundle_options = BundleOptions {
        args: args.command.clone(),
        terminal: args.terminal,
        hostname: args.hostname.clone(),
        rootless: (!is_root).then_some(ids),
    };
    let config = bundle_config(&options, &user, &bundle_options);

    let rootfs = bundle.join("rootfs");
    std::fs::create_dir(&bundle)
        .and_then(|()| std::fs::create_dir(&rootfs))
        .with_context(|| format!("cannot make {}", bundle.display()))?;
    let made = std::fs::write(bundle.join("config.json"), serde_json::to_vec_pretty(&config)?)
        .with_context(|| format!("cannot write {}", bundle.join("config.json").display()))
        .and_then(|()| mount(args, &bundle, &rootfs));
    if made.is_err() {
        // Best effort: the error is what counts.
        let _ = std::fs::remove_dir_all(&bundle);
    }
    made.map(|()| Outcome::Done)
}

/// Mounts through the verb `mount`, so that a bundle's mount is like any other.
fn mount(args: &BundleArgs, bundle: &Path, rootfs: &Path) -> anyhow::Result<()> {
    let mut words: Vec<OsString> = vec!["microfs".into(), "mount".into(), "--persist".into()];
    words.push(bundle.join("changes").into());
    if let Some(platform) = &args.platform.platform {
        words.extend(["--platform".into(), platform.to_string().into()]);
    }
    let image = args.words.len().saturating_sub(1);
    words.push("--".into());
    words.extend(args.words.iter().take(image).cloned());
    words.push(rootfs.into());
    match background::spawn(words) {
        Ok(()) => Ok(()),
        Err(BackgroundError::Ended { status }) if status.code().is_some() => {
            bail!("cannot mount {}", rootfs.display())
        }
        Err(error) => Err(error.into()),
    }
}

fn file(stack: &Stack, path: &str) -> anyhow::Result<String> {
    let Ok((node, _)) = find(stack, path.as_ref(), true) else { return Ok(String::new()) };
    let mut bytes = vec![0; FILE_MAX];
    let length = stack.read_at(node, 0, &mut bytes).unwrap_or(0);
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn remove(bundle: &Path) -> anyhow::Result<Outcome> {
    if !bundle.join("config.json").is_file() {
        bail!("{} is not a bundle: it has no config.json", bundle.display());
    }
    match unmount(&bundle.join("rootfs"), Unmount::WhenIdle) {
        Ok(()) | Err(UnmountError::NotMounted { .. } | UnmountError::Missing { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    std::fs::remove_dir_all(bundle)
        .with_context(|| format!("cannot delete {}", bundle.display()))?;
    Ok(Outcome::Done)
}

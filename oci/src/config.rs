//! The image config: how an image says what to run, read and written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Document, OciError};
use crate::json::{JsonObject, null_default};
use crate::platform::Platform;

/// The `config` object of an image config, as far as microfs sets it.
///
/// When an image is assembled, `None` leaves what the source config says and
/// an empty value removes it. `env` is merged by variable, `labels` by key;
/// `exposed_ports` and `volumes` are added to those there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConfigOptions {
    /// Command that always runs.
    pub entrypoint: Option<Vec<String>>,
    /// Default arguments, or the command when there is no entrypoint.
    pub cmd: Option<Vec<String>>,
    /// Environment, each `NAME=VALUE`.
    #[serde(default, deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// User, `user`, `uid`, `user:group` or `uid:gid`.
    pub user: Option<String>,
    /// Labels.
    #[serde(default, deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    /// Ports, each `PORT`, `PORT/tcp` or `PORT/udp`.
    #[serde(default, deserialize_with = "key_set")]
    pub exposed_ports: BTreeSet<String>,
    /// Folders that hold data of one container.
    #[serde(default, deserialize_with = "key_set")]
    pub volumes: BTreeSet<String>,
    /// Signal that asks the container to stop.
    pub stop_signal: Option<String>,
}

/// The specification writes sets as objects whose values are empty objects.
fn key_set<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<String>, D::Error> {
    let map = Option::<BTreeMap<String, serde::de::IgnoredAny>>::deserialize(deserializer)?;
    Ok(map.unwrap_or_default().into_keys().collect())
}

/// The parts of an image config that are needed to use the image.
#[derive(Debug, Deserialize)]
pub(crate) struct ConfigDocument {
    #[serde(default, deserialize_with = "null_default")]
    architecture: String,
    #[serde(default, deserialize_with = "null_default")]
    os: String,
    variant: Option<String>,
    #[serde(rename = "os.version")]
    os_version: Option<String>,
    pub(crate) created: Option<String>,
    rootfs: Option<RootFs>,
    #[serde(default, deserialize_with = "null_default")]
    pub(crate) config: ConfigOptions,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    diff_ids: Vec<String>,
}

impl ConfigDocument {
    pub(crate) fn platform(&self) -> Platform {
        Platform {
            os_version: self.os_version.clone(),
            variant: self.variant.clone().filter(|variant| !variant.is_empty()),
            ..Platform::new(&self.os, &self.architecture)
        }
    }

    pub(crate) fn diff_ids(&self, path: &Path) -> Result<Vec<&str>, OciError> {
        let malformed =
            |rule| OciError::Malformed { path: path.into(), document: Document::Config, rule };
        let rootfs = self.rootfs.as_ref().ok_or_else(|| malformed("it has no rootfs"))?;
        if rootfs.kind.as_deref().is_some_and(|kind| kind != "layers") {
            return Err(malformed("rootfs.type must be \"layers\""));
        }
        Ok(rootfs.diff_ids.iter().map(String::as_str).collect())
    }
}

/// Applies options to the `config` object; fields they do not name stay as
/// they are.
pub(crate) fn apply(object: &mut JsonObject, options: &ConfigOptions) -> serde_json::Result<()> {
    let scalars = [
        ("User", &options.user),
        ("WorkingDir", &options.working_dir),
        ("StopSignal", &options.stop_signal),
    ];
    for (key, value) in scalars {
        match value.as_deref() {
            None => {}
            Some("") => object.remove(key),
            Some(text) => object.set(key, text)?,
        }
    }
    for (key, set) in [("ExposedPorts", &options.exposed_ports), ("Volumes", &options.volumes)] {
        if !set.is_empty() {
            let mut entries: JsonObject = object.field(key)?.unwrap_or_default();
            for name in set.iter().filter(|name| !name.is_empty()) {
                entries.set(name, &BTreeMap::<(), ()>::new())?;
            }
            object.set(key, &entries)?;
        }
    }
    if !options.env.is_empty() {
        let mut env: Vec<String> = object.field("Env")?.unwrap_or_default();
        for variable in &options.env {
            set_variable(&mut env, variable);
        }
        object.set("Env", &env)?;
    }
    for (key, list) in [("Entrypoint", &options.entrypoint), ("Cmd", &options.cmd)] {
        match list.as_deref() {
            None => {}
            Some([]) => object.remove(key),
            Some(words) => object.set(key, words)?,
        }
    }
    if !options.labels.is_empty() {
        let mut labels: JsonObject = object.field("Labels")?.unwrap_or_default();
        for (key, value) in &options.labels {
            labels.set(key, value)?;
        }
        object.set("Labels", &labels)?;
    }
    Ok(())
}

/// `NAME=VALUE` takes the place of the variable, or comes last.
fn set_variable(env: &mut Vec<String>, variable: &str) {
    let name = |text: &str| text.split_once('=').map_or(text, |(name, _)| name).to_owned();
    let wanted = name(variable);
    match env.iter_mut().find(|old| name(old) == wanted) {
        Some(old) => variable.clone_into(old),
        None => env.push(variable.to_owned()),
    }
}

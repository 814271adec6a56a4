//! Operating system and architecture of an image, and which image fits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::OciError;
use crate::json::null_default;

/// The `platform` object of the OCI image specification, with Go's names for
/// systems and architectures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// CPU architecture, such as `amd64`; empty when not stated.
    #[serde(default, deserialize_with = "null_default")]
    pub architecture: String,
    /// Operating system, such as `linux`; empty when not stated.
    #[serde(default, deserialize_with = "null_default")]
    pub os: String,
    /// Version of the operating system; not used for selection.
    #[serde(default, rename = "os.version", skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Features of the operating system; not used for selection.
    #[serde(
        default,
        rename = "os.features",
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub os_features: Vec<String>,
    /// Variant of the architecture, such as `v7` of `arm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Which platform an image should be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlatformRequest {
    /// The platform of the running program where there is a choice. A manifest
    /// that stands in `index.json` itself is no choice: it is taken as it is.
    #[default]
    Host,
    /// This one, or an error.
    Exact(Platform),
}

impl PlatformRequest {
    /// The platform asked for.
    #[must_use]
    pub fn platform(&self) -> Platform {
        match self {
            Self::Host => Platform::host(),
            Self::Exact(platform) => platform.clone(),
        }
    }
}

impl Platform {
    /// A platform without variant.
    #[must_use]
    pub fn new(os: &str, architecture: &str) -> Self {
        Self { os: os.to_owned(), architecture: architecture.to_owned(), ..Self::default() }
    }

    /// The platform this program was compiled for.
    #[must_use]
    pub fn host() -> Self {
        let little = cfg!(target_endian = "little");
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "powerpc64" if little => "ppc64le",
            "powerpc64" => "ppc64",
            "mips" if little => "mipsle",
            "mips64" if little => "mips64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Self::new(std::env::consts::OS, architecture)
    }

    /// The same platform with the names that mean the same made one: `x86_64`
    /// is `amd64`, `arm64/v8` is `arm64`, `arm` is `arm/v7`, and so on.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let mut platform = self.clone();
        platform.os.make_ascii_lowercase();
        platform.architecture.make_ascii_lowercase();
        let variant = platform.variant.take().map(|text| text.to_ascii_lowercase());
        let mut variant = variant.filter(|text| !text.is_empty());
        if platform.os == "macos" {
            platform.os = "darwin".into();
        }
        let (architecture, implied) = match platform.architecture.as_str() {
            "x86_64" | "x86-64" => ("amd64", None),
            "i386" | "i486" | "i586" | "i686" | "x86" => ("386", None),
            "aarch64" => ("arm64", None),
            "armhf" => ("arm", Some("v7")),
            "armel" => ("arm", Some("v6")),
            other => (other, None),
        };
        if variant.is_none() {
            variant = implied.map(str::to_owned);
        }
        if variant.as_deref().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit())) {
            variant = variant.map(|text| format!("v{text}"));
        }
        match (architecture, variant.as_deref()) {
            ("arm64", Some("v8" | "v8.0")) | ("amd64", Some("v1")) => variant = None,
            ("arm", None) => variant = Some("v7".into()),
            _ => {}
        }
        platform.architecture = architecture.to_owned();
        platform.variant = variant;
        platform
    }

    /// How well a manifest for `offered` serves a request for `self`: `None`
    /// not at all, otherwise the higher the better.
    ///
    /// System and architecture must be equal; the variant must be equal or an
    /// older one (`arm/v6` serves `arm/v7`), the newest of which is the best.
    #[must_use]
    pub fn accepts(&self, offered: &Self) -> Option<u32> {
        let (wanted, offered) = (self.normalized(), offered.normalized());
        if wanted.os != offered.os || wanted.architecture != offered.architecture {
            return None;
        }
        if wanted.variant == offered.variant {
            return Some(u32::MAX);
        }
        let (want, have) = (wanted.variant_level()?, offered.variant_level()?);
        (have <= want).then_some(have)
    }

    /// `v7` as 700, `v8.2` as 802; an absent variant is the architecture's first.
    fn variant_level(&self) -> Option<u32> {
        let Some(variant) = self.variant.as_deref() else {
            return Some(if self.architecture == "arm64" { 800 } else { 100 });
        };
        let numbers = variant.strip_prefix('v')?;
        let (major, minor) = numbers.split_once('.').unwrap_or((numbers, "0"));
        let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        major.checked_mul(100)?.checked_add(minor.min(99))
    }

    /// Whether this is how builders mark what is not for any platform.
    pub(crate) fn is_unknown(&self) -> bool {
        self.os == "unknown" && self.architecture == "unknown"
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text: &str| {
            if text.is_empty() { "unknown".into() } else { text.escape_debug().to_string() }
        };
        write!(f, "{}/{}", part(&self.os), part(&self.architecture))?;
        match &self.variant {
            Some(variant) if !variant.is_empty() => write!(f, "/{}", variant.escape_debug()),
            _ => Ok(()),
        }
    }
}

impl FromStr for Platform {
    type Err = OciError;

    /// Parses `OS/ARCH` or `OS/ARCH/VARIANT`.
    fn from_str(text: &str) -> Result<Self, OciError> {
        let allowed = |part: &&str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        };
        let parts: Option<Vec<&str>> =
            text.split('/').map(|part| Some(part).filter(allowed)).collect();
        match parts.as_deref() {
            Some([os, architecture]) => Ok(Self::new(os, architecture)),
            Some([os, architecture, variant]) => {
                Ok(Self { variant: Some((*variant).to_owned()), ..Self::new(os, architecture) })
            }
            _ => Err(OciError::InvalidPlatform { text: text.to_owned() }),
        }
    }
}

//! The messages of cargo on what it has built, with `--message-format json`.

use std::path::PathBuf;

use serde::Deserialize;

/// Something that cargo has built.
#[derive(Deserialize)]
pub struct Artifact {
    /// The part of the package.
    pub target: ArtifactTarget,
    /// The way it was built.
    #[serde(default)]
    pub profile: ArtifactProfile,
    /// The program, if it is one.
    pub executable: Option<PathBuf>,
    /// The manifest of its package.
    #[serde(default)]
    pub manifest_path: PathBuf,
}

/// The part of a package that it was built from.
#[derive(Deserialize)]
pub struct ArtifactTarget {
    /// The name in the package.
    pub name: String,
    /// `lib`, `bin`, `example`, `test` and others.
    #[serde(default)]
    pub kind: Vec<String>,
}

/// The profile that it was built with.
#[derive(Default, Deserialize)]
pub struct ArtifactProfile {
    /// True for a program of tests.
    pub test: bool,
}

impl Artifact {
    /// The artifact that a line tells of; `None` if it tells of something else.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Returns true if it was built from a part of this kind.
    pub fn is(&self, kind: &str) -> bool {
        self.target.kind.first().is_some_and(|first| first == kind)
    }
}

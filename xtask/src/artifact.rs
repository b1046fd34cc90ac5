//! What cargo says of what it has built, with `--message-format json`.

use std::path::PathBuf;

use serde::Deserialize;

/// Something that cargo has built.
#[derive(Deserialize)]
pub(crate) struct Artifact {
    pub(crate) target: ArtifactTarget,
    #[serde(default)]
    pub(crate) profile: ArtifactProfile,
    /// The program, if it is one.
    pub(crate) executable: Option<PathBuf>,
    /// The manifest of its package.
    #[serde(default)]
    pub(crate) manifest_path: PathBuf,
}

/// The part of a package that it was built from.
#[derive(Deserialize)]
pub(crate) struct ArtifactTarget {
    pub(crate) name: String,
    /// `lib`, `bin`, `example`, `test` and others.
    #[serde(default)]
    pub(crate) kind: Vec<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ArtifactProfile {
    /// True for a program of tests.
    pub(crate) test: bool,
}

impl Artifact {
    /// The artifact that a line tells of; `None` if it tells of something else.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Returns true if it was built from a part of this kind.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.target.kind.first().is_some_and(|first| first == kind)
    }
}

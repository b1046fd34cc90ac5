//! `cargo xtask house`: measures of how readable the sources are, beside the baselines that no
//! change may make worse.

mod circles;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use self::circles::Depth;
use self::source::{SourceCounts, SourceFile};
use crate::steps::Outcome;
use crate::table::Table;
use crate::workspace::{checkout, git};

/// The file of the baselines.
const BASELINES: &str = "baselines.json";

/// The crates whose modules form no circle of imports, by the folder of their sources, and the
/// modules of each that are measured.
const ROOMS: [(&str, &str, Depth); 6] = [
    ("hal", "hal/src", Depth::Top),
    ("protocols", "protocols/src", Depth::Top),
    ("drivers", "drivers/src", Depth::Top),
    ("kernel", "kernel/src", Depth::OnShelves),
    ("coll", "coll/src", Depth::Top),
    ("C interface", "host-sim/mpi/src", Depth::Top),
];

/// Names that are defined so often say too little.
const SAME_NAMES: usize = 3;

/// Measures how readable the sources are, and compares with the baselines.
///
/// The baselines are in baselines.json. A measure that is worse than its baseline fails, here and
/// in the step `house` of `cargo xtask test`; --update writes them anew, and the difference is for
/// the reviewer of the change.
#[derive(Args)]
pub(crate) struct House {
    /// Write the baselines anew
    #[arg(long)]
    update: bool,
    /// Print one JSON object a measure
    #[arg(long)]
    json: bool,
    /// Print what is counted instead of the counts: each circle, each name, each function
    #[arg(long)]
    list: bool,
}

/// A measure: less is better.
struct HouseMeasure {
    name: String,
    value: f64,
    /// The value that it is to reach, or to fall below.
    aim: f64,
    /// The places that are counted.
    found: Vec<String>,
}

impl House {
    pub(crate) fn run(self) -> Result<()> {
        let measures = measures()?;
        if self.list {
            for HouseMeasure { name, found, .. } in &measures {
                found.iter().for_each(|one| println!("{name}: {one}"));
            }
            return Ok(());
        }
        if self.update {
            let values: BTreeMap<&str, f64> =
                measures.iter().map(|measure| (measure.name.as_str(), measure.value)).collect();
            let text = serde_json::to_string_pretty(&values)? + "\n";
            fs::write(file(), text).with_context(|| format!("writing {BASELINES}"))?;
        }
        let baselines = baselines()?;
        if self.json {
            for HouseMeasure { name, value, aim, .. } in &measures {
                let baseline = baselines.get(name);
                println!("{}", json!({"measure": name, "value": value, "baseline": baseline, "aim": aim}));
            }
        } else {
            println!("{}", table(&measures, &baselines));
        }
        judge(&measures, &baselines).map(drop)
    }
}

/// The step of `cargo xtask test`.
pub(crate) fn check() -> Result<Outcome> {
    let (measures, baselines) = (measures()?, baselines()?);
    eprintln!("{}", table(&measures, &baselines));
    judge(&measures, &baselines)
}

fn file() -> PathBuf {
    checkout().join(BASELINES)
}

fn baselines() -> Result<BTreeMap<String, f64>> {
    let text = fs::read_to_string(file()).with_context(|| format!("reading {BASELINES}"))?;
    serde_json::from_str(&text).with_context(|| format!("reading {BASELINES}"))
}

fn table(measures: &[HouseMeasure], baselines: &BTreeMap<String, f64>) -> Table {
    let mut table = Table::new(["measure", "now", "baseline", "aim"]);
    for HouseMeasure { name, value, aim, .. } in measures {
        let baseline = baselines.get(name).map_or_else(|| "-".into(), ToString::to_string);
        table.row([name.clone(), value.to_string(), baseline, aim.to_string()]);
    }
    table
}

fn judge(measures: &[HouseMeasure], baselines: &BTreeMap<String, f64>) -> Result<Outcome> {
    let worse = |measure: &&HouseMeasure| baselines.get(&measure.name).is_none_or(|old| measure.value > *old);
    let worse: Vec<String> = measures
        .iter()
        .filter(worse)
        .map(|HouseMeasure { name, value, .. }| match baselines.get(name) {
            Some(old) => format!("{name}: {value}, was {old}"),
            None => format!("{name}: {value}, which has no baseline"),
        })
        .collect();
    if !worse.is_empty() {
        bail!(
            "worse than {BASELINES}: {}; mend it (`cargo xtask house --list` tells where), or say in the commit why \
             and run `cargo xtask house --update`",
            worse.join("; ")
        );
    }
    let reached = measures.iter().filter(|measure| measure.value <= measure.aim).count();
    Ok(Outcome::Passed(format!("{} measures, {reached} at their aims", measures.len())))
}

/// All measures of the sources that git knows.
fn measures() -> Result<Vec<HouseMeasure>> {
    let listed = git(&["ls-files", "-z", "*.rs"])?;
    let mut sources = Vec::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // A file that the change removes.
        let Ok(text) = fs::read_to_string(checkout().join(name)) else { continue };
        sources.push(SourceFile::parse(name, text)?);
    }
    let mut all = SourceCounts::default();
    sources.iter().for_each(|source| all.take(source));
    let percent = |part: usize, whole: usize| (1000.0 * part as f64 / whole.max(1) as f64).round() / 10.0;
    let mut measures = Vec::new();
    let mut add = |name: &str, value: f64, aim: f64, found: Vec<String>| {
        measures.push(HouseMeasure { name: name.into(), value, aim, found });
    };
    for (room, folder, depth) in ROOMS {
        let sources = sources.iter().filter(|source| source.name.starts_with(folder));
        let circles = circles::of(sources, folder, depth);
        let modules: usize = circles.iter().map(Vec::len).sum();
        let found = circles.iter().map(|circle| circle.join(" <-> ")).collect();
        add(&format!("modules in circles of {room}"), modules as f64, 0.0, found);
    }
    for (name, aim) in [("Endpoint", 50.0), ("Scope", 45.0)] {
        let methods = all.methods.get(name).cloned().unwrap_or_default();
        add(&format!("public methods of {name}"), methods.len() as f64, aim, methods);
    }
    let opening = percent(all.openings.len(), all.docs);
    add(
        "% of doc comments that begin with What, Whether, Who, How, Where, As, It, One",
        opening,
        4.0,
        all.openings,
    );
    let same = percent(all.errors_as.len(), all.errors);
    add("% of Errors sections that only say As", same, 10.0, all.errors_as);
    add("comment lines above 100 columns", all.wide.len() as f64, 0.0, all.wide);
    let many = percent(all.many.len(), all.functions);
    add("% of functions with five or more parameters, C interface apart", many, 2.0, all.many);
    add("parameters that are tuples", all.tuples.len() as f64, 0.0, all.tuples);
    add("modules by #[path]", all.paths.len() as f64, 0.0, all.paths);
    let often: Vec<String> = all
        .types
        .into_iter()
        .filter(|(_, places)| places.len() >= SAME_NAMES)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    add("type names defined three times or more", often.len() as f64, 29.0, often);
    add("mentions of the feature compact", all.compact.len() as f64, 0.0, all.compact);
    Ok(measures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worse_or_has_no_baseline_is_named() {
        let measure = |value| [HouseMeasure { name: "a".into(), value, aim: 0.0, found: Vec::new() }];
        let baselines = BTreeMap::from([("a".to_owned(), 3.0)]);
        assert!(judge(&measure(3.0), &baselines).is_ok());
        assert!(judge(&measure(2.0), &baselines).is_ok());
        let error = judge(&measure(4.0), &baselines).unwrap_err().to_string();
        assert!(error.contains("a: 4, was 3"), "{error}");
        assert!(judge(&measure(0.0), &BTreeMap::new()).is_err());
    }
}

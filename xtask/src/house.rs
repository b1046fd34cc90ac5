//! `cargo xtask house`: measures of how readable the sources are, beside the baselines that no
//! change may make worse.

mod circles;
mod source;
mod ways;

use std::fs;

use aldis_shell::baselines::{Cost, Gate};
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use aldis_shell::workspace::{checkout, git};
use anyhow::Result;
use clap::Args;
use serde_json::json;

use self::circles::Depth;
use self::source::{SourceCounts, SourceFile};
use self::ways::WAYS;

const GATE: Gate = Gate { section: "house", tolerance: 0.0, command: "cargo xtask house" };

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
    cost: Cost,
    /// The value that it is to reach, or to fall below.
    aim: f64,
    /// The places that are counted.
    found: Vec<String>,
}

impl House {
    pub(crate) fn run(self) -> Result<()> {
        let measures = measures()?;
        if self.list {
            for HouseMeasure { cost, found, .. } in &measures {
                found.iter().for_each(|one| println!("{}: {one}", cost.name));
            }
            return Ok(());
        }
        if self.update {
            GATE.update(&costs(&measures))?;
        }
        if self.json {
            let baselines = GATE.baselines()?;
            for HouseMeasure { cost: Cost { name, value }, aim, .. } in &measures {
                let baseline = baselines.get(name);
                println!("{}", json!({"measure": name, "value": value, "baseline": baseline, "aim": aim}));
            }
        } else {
            println!("{}", table(&measures)?);
        }
        GATE.hold(&costs(&measures))
    }
}

/// The step of `cargo xtask test`.
pub(crate) fn check() -> Result<Outcome> {
    let measures = measures()?;
    eprintln!("{}", table(&measures)?);
    GATE.hold(&costs(&measures))?;
    let reached = measures.iter().filter(|measure| measure.cost.value <= measure.aim).count();
    Ok(Outcome::Passed(format!("{} measures, {reached} at their aims", measures.len())))
}

/// Measures and writes the baselines anew.
pub(crate) fn update() -> Result<()> {
    GATE.update(&costs(&measures()?))
}

fn costs(measures: &[HouseMeasure]) -> Vec<Cost> {
    measures.iter().map(|measure| measure.cost.clone()).collect()
}

fn table(measures: &[HouseMeasure]) -> Result<Table> {
    let baselines = GATE.baselines()?;
    let mut table = Table::new(["measure", "now", "baseline", "aim"]);
    for HouseMeasure { cost: Cost { name, value }, aim, .. } in measures {
        let baseline = baselines.get(name).map_or_else(|| "-".into(), ToString::to_string);
        table.row([name.clone(), value.to_string(), baseline, aim.to_string()]);
    }
    Ok(table)
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
        measures.push(HouseMeasure { cost: Cost { name: name.into(), value }, aim, found });
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
    let map = fs::read_to_string(checkout().join("ARCHITECTURE.md"))?;
    let mut lost = Vec::new();
    for (way, functions, files) in WAYS {
        let steps = ways::steps(&map, way)?;
        let mut entered: Vec<String> = steps.iter().map(|step| step.file.into()).collect();
        entered.sort();
        entered.dedup();
        let absent = steps.iter().filter(|step| !step.is_in(&sources));
        lost.extend(absent.map(|step| format!("{way}: {} in {}", step.function, step.file)));
        let names: Vec<String> = steps.iter().map(|step| step.function.into()).collect();
        add(&format!("functions: {way}"), names.len() as f64, functions as f64, names);
        add(&format!("files: {way}"), entered.len() as f64, files as f64, entered);
    }
    add("functions that ARCHITECTURE.md walks and the code has not", lost.len() as f64, 0.0, lost);
    add("mentions of the feature compact", all.compact.len() as f64, 0.0, all.compact);
    Ok(measures)
}

//! Exact costs beside the values that no change may exceed unseen: `baselines.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::table::Table;
use crate::workspace::checkout;

/// The file of the baselines.
const FILE: &str = "baselines.json";

/// Every baseline, by section and name.
type Sections = BTreeMap<String, BTreeMap<String, f64>>;

/// A section of the baselines, and how it is held.
pub struct Gate {
    /// The name of the section.
    pub section: &'static str,
    /// Percent by which a cost may exceed its baseline.
    pub tolerance: f64,
    /// The command that measures these costs, and takes `--update`.
    pub command: &'static str,
}

/// A cost: less is better.
#[derive(Clone)]
pub struct Cost {
    /// The name of what costs.
    pub name: String,
    /// The cost.
    pub value: f64,
}

impl Gate {
    /// Compares costs with their baselines.
    ///
    /// # Errors
    /// A cost above its baseline or without one, and a baseline of nothing that is measured.
    pub fn hold(&self, costs: &[Cost]) -> Result<()> {
        let baselines = self.baselines()?;
        let wrong = self.wrong(costs, &baselines);
        if wrong.is_empty() {
            return Ok(());
        }
        bail!(
            "worse than {FILE}, section {}: {}; mend it, or say in the commit why and run `{} --update`",
            self.section,
            wrong.join("; "),
            self.command
        );
    }

    /// Writes the costs as the baselines of this section.
    pub fn update(&self, costs: &[Cost]) -> Result<()> {
        let mut sections = sections()?;
        let values = costs.iter().map(|cost| (cost.name.clone(), cost.value)).collect();
        sections.insert(self.section.into(), values);
        let text = serde_json::to_string_pretty(&sections)? + "\n";
        fs::write(file(), text).with_context(|| format!("writing {FILE}"))
    }

    /// The baselines of this section, by name.
    pub fn baselines(&self) -> Result<BTreeMap<String, f64>> {
        Ok(sections()?.remove(self.section).unwrap_or_default())
    }

    /// Returns the costs beside their baselines.
    pub fn table(&self, costs: &[Cost]) -> Result<Table> {
        let baselines = self.baselines()?;
        let mut table = Table::new([self.section, "now", "baseline", "change %"]);
        for Cost { name, value } in costs {
            let (baseline, change) = match baselines.get(name) {
                Some(old) => (old.to_string(), format!("{:+.1}", 100.0 * (value - old) / old.max(1.0))),
                None => ("-".into(), "-".into()),
            };
            table.row([name.clone(), value.to_string(), baseline, change]);
        }
        Ok(table)
    }

    fn wrong(&self, costs: &[Cost], baselines: &BTreeMap<String, f64>) -> Vec<String> {
        let most = |old: f64| old * (1.0 + self.tolerance / 100.0);
        let worse = costs.iter().filter_map(|Cost { name, value }| match baselines.get(name) {
            Some(old) if *value <= most(*old) => None,
            Some(old) => Some(format!("{name}: {value}, was {old}")),
            None => Some(format!("{name}: {value}, which has no baseline")),
        });
        let measured = |name: &String| costs.iter().any(|cost| cost.name == *name);
        let lost = baselines.keys().filter(|name| !measured(name));
        worse.chain(lost.map(|name| format!("{name}: not measured any more"))).collect()
    }
}

fn file() -> PathBuf {
    checkout().join(FILE)
}

fn sections() -> Result<Sections> {
    let text = fs::read_to_string(file()).with_context(|| format!("reading {FILE}"))?;
    serde_json::from_str(&text).with_context(|| format!("reading {FILE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_above_tolerance_or_without_a_baseline_are_named() {
        let gate = Gate { section: "test", tolerance: 2.0, command: "measure" };
        let baselines = BTreeMap::from([("a".to_owned(), 100.0)]);
        let wrong = |name: &str, value| gate.wrong(&[Cost { name: name.into(), value }], &baselines);
        assert!(wrong("a", 90.0).is_empty());
        assert!(wrong("a", 102.0).is_empty());
        assert_eq!(wrong("a", 102.1), ["a: 102.1, was 100"]);
        assert_eq!(wrong("b", 0.0), ["b: 0, which has no baseline", "a: not measured any more"]);
    }
}

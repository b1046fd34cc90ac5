//! The report of a job.

use aldis_shell::table::Table;
use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::job::Job;
use super::machine::Arch;
use super::programs::QemuPrograms;
use super::rank::Rank;

/// A job as it went.
pub(super) struct JobReport {
    pub(super) job: Job,
    pub(super) ranks: Vec<Rank>,
    /// The switch's figures, where there was one.
    pub(super) wire: Option<Value>,
    pub(super) seconds: f64,
    /// The result of the same job of Linux processes, if it was run.
    pub(super) reference: Option<String>,
}

/// The effects of the faults: the name of each here, and its place in the switch's figures.
pub(super) const FAULTS: [(&str, &str); 6] = [
    ("lost", "/faults/lost"),
    ("duplicated", "/faults/duplicated"),
    ("reordered", "/faults/reordered"),
    ("late", "/faults/delayed"),
    ("corrupted", "/faults/corrupted"),
    ("malformed", "/faults/malformed"),
];

/// The switch's other counts.
const COUNTS: [(&str, &str); 3] =
    [("frames", "/received"), ("delivered", "/sent"), ("overflowed", "/overflowed")];

impl JobReport {
    /// Returns true if every rank is good and all agree.
    pub(super) fn is_good(&self) -> bool {
        self.faults().is_empty()
    }

    /// The result of all ranks, if the program has one.
    pub(super) fn digest(&self) -> Option<&str> {
        self.ranks.iter().find_map(Rank::digest)
    }

    /// A count of the switch; objects are summed.
    pub(super) fn count(&self, pointer: &str) -> u64 {
        match self.wire.as_ref().and_then(|wire| wire.pointer(pointer)) {
            Some(Value::Object(parts)) => parts.values().filter_map(Value::as_u64).sum(),
            Some(value) => value.as_u64().unwrap_or(0),
            None => 0,
        }
    }

    /// Runs the same job of Linux processes on a good wire, if there is a result to compare and
    /// something it could differ by.
    pub(super) fn compare_with_host(&mut self, programs: &QemuPrograms) -> Result<()> {
        let job = self.job.of_the_host();
        let differs = self.job.members != job.members || !self.job.wire.faults.are_none();
        if differs && self.is_good() && self.digest().is_some() {
            let own = job.play(programs)?;
            own.judge()?;
            self.reference = own.digest().map(str::to_owned);
        }
        Ok(())
    }

    /// Frames that ranks have refused as malformed, of a wrong connection or life, or damaged.
    pub(super) fn refused(&self) -> u64 {
        let reasons =
            ["foreign", "truncated", "checksum", "version", "stale", "impostor", "unknown", "malformed"];
        let of = |rank: &Rank| reasons.iter().filter_map(|name| rank.frames(name)).sum::<u64>();
        self.ranks.iter().map(of).sum()
    }

    /// Everything that is wrong, in words.
    fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.ranks.iter().filter_map(Rank::fault).collect();
        faults.extend(same_life(&self.ranks));
        if let Some(digest) = self.digest() {
            let other = self.ranks.iter().find(|rank| rank.digest() != Some(digest));
            faults.extend(other.map(|rank| {
                format!(
                    "{} has the result {} where {digest} is rank 0's",
                    rank.label(),
                    rank.digest().unwrap_or("none")
                )
            }));
            let reference = self.reference.as_deref().filter(|reference| *reference != digest);
            faults.extend(
                reference.map(|reference| format!("the result is {digest} and the host's {reference}")),
            );
        }
        faults
    }

    /// Fails with everything that is wrong.
    pub(super) fn judge(&self) -> Result<()> {
        let faults = self.faults();
        if !faults.is_empty() {
            bail!("{} on {} ranks failed:\n  {}", self.job.program, self.job.size(), faults.join("\n  "));
        }
        Ok(())
    }

    /// Returns what is good, in a line.
    pub(super) fn praise(&self) -> String {
        let (ranks, program) = (self.job.size(), &self.job.program);
        let same = match (self.digest(), &self.reference) {
            (Some(digest), Some(_)) => format!(", result {digest} on all and on the host"),
            (Some(digest), None) => format!(", result {digest} on all"),
            _ => String::new(),
        };
        format!("{program} on {ranks} ranks is good{same}, {:.1} s", self.seconds)
    }

    pub(super) fn table(&self) -> String {
        let mut ranks = Table::new(["rank", "arch", "seconds", "verdict"]);
        for rank in &self.ranks {
            let seconds = rank.ended.map_or_else(|| "-".into(), |(_, at)| format!("{:.1}", at.as_secs_f64()));
            let verdict =
                rank.fault().map_or_else(|| rank.verdict().unwrap_or_default().into(), |_| "FAILED".into());
            ranks.row([rank.number.to_string(), rank.arch.name().into(), seconds, verdict]);
        }
        let mut text = format!("\n{ranks}");
        if self.wire.is_some() {
            let counts = || COUNTS.iter().chain(&FAULTS);
            let mut wire = Table::from_head(counts().map(|(name, _)| *name));
            wire.push(counts().map(|(_, pointer)| self.count(pointer).to_string()));
            text.push_str(&format!("\n{wire}"));
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let ranks: Vec<Value> = self.ranks.iter().map(rank_json).collect();
        json!({
            "job": self.job.name,
            "program": self.job.program,
            "good": self.is_good(),
            "faults": self.faults(),
            "seconds": self.seconds,
            "digest": self.digest(),
            "reference": self.reference,
            "ranks": ranks,
            "wire": self.wire,
        })
        .to_string()
    }
}

/// Two boots that have drawn the same epoch, if any have: their boards' entropy is none. A Cortex-M
/// has its counter alone.
fn same_life(ranks: &[Rank]) -> Option<String> {
    let drawn = |rank: &&Rank| rank.arch != Arch::CortexM && rank.epoch().is_some();
    let mut drawn = ranks.iter().filter(drawn);
    while let Some(one) = drawn.next() {
        if let Some(other) = drawn.clone().find(|other| other.epoch() == one.epoch()) {
            let epoch = one.epoch().unwrap_or_default();
            return Some(format!("{} and {} have both the epoch {epoch}", one.label(), other.label()));
        }
    }
    None
}

fn rank_json(rank: &Rank) -> Value {
    json!({
        "rank": rank.number,
        "arch": rank.arch.name(),
        "verdict": rank.verdict(),
        "code": rank.ended.and_then(|(status, _)| status.code()),
        "seconds": rank.ended.map(|(_, at)| at.as_secs_f64()),
        "digest": rank.digest(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(number: usize, arch: Arch, said: &str) -> Rank {
        let mut rank = Rank::new(number, arch);
        rank.hear(said.as_bytes());
        rank
    }

    #[test]
    fn boards_that_draw_the_same_epoch_are_told() {
        let (host, one) = (rank(0, Arch::Host, "x\n"), rank(1, Arch::Riscv64, "info: epoch 00ff\n"));
        let (same, other) =
            (rank(2, Arch::Riscv64, "info: epoch 00ff\n"), rank(3, Arch::Aarch64, "info: epoch 00fe\n"));
        let counts = rank(4, Arch::CortexM, "info: epoch 00fe\n");
        assert_eq!(same_life(&[host, one, other, counts]), None);
        let told = same_life(&[rank(1, Arch::Riscv64, "info: epoch 00ff\n"), same]).unwrap();
        assert_eq!(told, "[rank 1 riscv64] and [rank 2 riscv64] have both the epoch 00ff");
    }
}

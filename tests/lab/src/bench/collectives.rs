//! `cargo xtask bench collectives`: every collective operation at sizes that show how it grows, in
//! one run.

use aldis_shell::workspace::Workspace;
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::PROFILE;
use super::campaign::{Campaign, CampaignItem, CampaignStage, Output, Pace};
use super::implementation::{Implementation, Transport};
use super::measure;
use super::programs::{BuildOrders, Programs};
use super::report::Report;
use super::rounds::Bench;
use super::workload::BenchWorkload;

/// All collective operations with 2 ranks, and with 4 ranks on two cores
///
/// A table at the end, a row for each operation and size, with the ratio to the best peer; all of
/// it takes half an hour. Bytes are those of a vector; of a block where there is one for every
/// rank, and in the v-variants half and one and a half times as many by turns. With 4 ranks the
/// peers yield their cores while they wait, which is their setting for more ranks than cores. gloo
/// has TCP alone, and no scans, reduce_scatter(_block), gatherv, scatterv, alltoallw and
/// neighbours.
#[derive(Args)]
pub(crate) struct Collectives {
    /// Measure only these operations [default: all]
    #[arg(value_name = "OPERATION", value_parser = operations(), hide_possible_values = false)]
    operations: Vec<BenchWorkload>,
    /// Measure Open MPI, MPICH and gloo too, where they are installed
    #[arg(long)]
    peers: bool,
    /// Measure only these implementations
    #[arg(long, value_delimiter = ',')]
    only: Vec<Implementation>,
    /// Transports by which messages travel
    #[arg(long, value_enum, value_delimiter = ',', default_value = "shm")]
    transport: Vec<Transport>,
    /// Numbers of ranks, on two cores
    #[arg(long, value_delimiter = ',', default_value = "2,4", value_parser = clap::value_parser!(u8).range(2..=16))]
    ranks: Vec<u8>,
    /// Sizes in bytes [default: 8 bytes to 1 MiB]
    #[arg(long, value_delimiter = ',')]
    bytes: Vec<usize>,
    /// Time to measure each operation at each size for
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[command(flatten)]
    output: Output,
    /// Fail when a peer is not installed
    #[arg(long)]
    require: bool,
    /// Cargo's profile to build with; `release` builds sooner, and runs some percent slower
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
}

/// The operations by name.
fn operations() -> impl TypedValueParser<Value = BenchWorkload> {
    let known = PossibleValuesParser::new(BenchWorkload::COLLECTIVES.map(BenchWorkload::name));
    known.try_map(|name| {
        let found = BenchWorkload::COLLECTIVES.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| anyhow::anyhow!("no such operation"))
    })
}

impl Collectives {
    /// Returns what is measured, whatever the number of ranks.
    fn items(&self) -> Result<Vec<CampaignItem>> {
        let operations =
            if self.operations.is_empty() { &BenchWorkload::COLLECTIVES[..] } else { &self.operations };
        let mut items = Vec::new();
        for &workload in operations {
            let sizes = match (workload, self.bytes.as_slice()) {
                (BenchWorkload::Barrier, _) | (_, []) => workload.sizes(),
                (_, sizes) => sizes,
            };
            if sizes.iter().any(|&bytes| bytes < workload.bytes_min()) {
                bail!("--bytes: {} needs {} bytes at least", workload.name(), workload.bytes_min());
            }
            items.extend(sizes.iter().map(|&bytes| CampaignItem { workload, bytes }));
        }
        Ok(items)
    }

    pub(crate) fn run(self) -> Result<()> {
        let items = self.items()?;
        let stage =
            |transport, &ranks| CampaignStage { transport, ranks: usize::from(ranks), items: items.clone() };
        let over = |&transport| self.ranks.iter().map(move |ranks| stage(transport, ranks));
        let stages: Vec<_> = self.transport.iter().flat_map(over).collect();
        let files = self.output.reserve()?;
        let mut report = Report::default();
        let mut wanted = measure::wanted(self.peers, self.require, |line| report.missing.push(line))?;
        if !self.only.is_empty() {
            wanted = self.only;
        }
        // Neither has collectives.
        wanted
            .retain(|one| !matches!(one, Implementation::Raw | Implementation::Arena | Implementation::Ucx));
        eprintln!("building {}", measure::names(&wanted));
        let orders = BuildOrders { profile: &self.profile, wanted: &wanted, others: &[], features: &[] };
        let mut bench = Bench::new(Programs::build(&Workspace::members()?, &orders)?)?;
        let campaign = Campaign { stages: &stages, wanted: &wanted, pace: Pace::Each(self.seconds) };
        let measured = campaign.run(&mut bench, &mut report);
        // Also when it did not come to its end: what there is has cost minutes.
        files.publish(&mut std::io::stdout().lock(), &report)?;
        measured
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ParsedLine {
        #[command(flatten)]
        collectives: Collectives,
    }

    fn read(line: &str) -> Result<Collectives, String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        ParsedLine::try_parse_from(words).map(|line| line.collectives).map_err(|error| error.to_string())
    }

    #[test]
    fn all_operations_are_measured_unless_some_are_named() {
        let all = read("").unwrap().items().unwrap();
        assert!(BenchWorkload::COLLECTIVES.iter().all(|one| all.iter().any(|item| item.workload == *one)));
        let one = read("alltoall barrier --bytes 64,128").unwrap().items().unwrap();
        let (workload, barrier) =
            (BenchWorkload::Alltoall, CampaignItem { workload: BenchWorkload::Barrier, bytes: 0 });
        assert_eq!(
            one,
            [CampaignItem { workload, bytes: 64 }, CampaignItem { workload, bytes: 128 }, barrier]
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        assert!(read("allscatter").err().unwrap().contains("possible values: barrier, bcast, "));
        assert!(read("--ranks 1").err().unwrap().contains("2..=16"));
        let small = read("scan --bytes 4").unwrap().items().unwrap_err().to_string();
        assert!(small.contains("scan needs 8 bytes"), "{small}");
    }
}

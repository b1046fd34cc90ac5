//! `cargo xtask qemu demo`: two guests and a Linux process, told as a story.

use core::time::Duration;

use anyhow::Result;
use clap::Args;

use super::cli::{EmulatorLink, FramePercentages, Framing};
use super::job::{Job, Wire};
use super::machine::Arch;
use super::programs::QemuPrograms;
use super::report::JobReport;

/// Two boards and a Linux process in one job: first on a good wire, then on a bad one.
#[derive(Args)]
pub struct Demo {}

/// An x86_64 board, a riscv64 board, and this machine.
const CAST: [Arch; 3] = [Arch::Host, Arch::X86_64, Arch::Riscv64];

impl Demo {
    pub(super) fn run(self) -> Result<()> {
        println!(
            "Three ranks of one job: a process of this machine, an x86_64 board and a riscv64 board. The boards run"
        );
        println!("the same kernel without an operating system and without a heap. Building them.\n");
        let programs = QemuPrograms::build(&CAST)?;
        println!(
            "1. They boot, find each other on an Ethernet and reduce, broadcast and wait for each other.\n"
        );
        let wire = Wire::default();
        act(&job("collectives", wire), &programs)?;
        println!("\n2. A plate of metal in three strips, one to a rank; the edges travel as messages.\n");
        let good = act(&job("heat", Wire::default()), &programs)?;
        println!(
            "\n3. The same on a bad wire: of a hundred frames five vanish, five come twice, ten are overtaken and five are"
        );
        println!("   garbage that a stranger puts in between.\n");
        let faults = FramePercentages {
            loss: 5.0,
            duplicate: 5.0,
            reorder: 10.0,
            malformed: 5.0,
            ..FramePercentages::default()
        };
        let bad = act(&job("heat", Wire { faults, pcap: None }), &programs)?;
        let (good, bad) = (good.digest().unwrap_or("none"), bad.digest().unwrap_or("none"));
        if good != bad {
            anyhow::bail!("the result was {good} and on the bad wire {bad}");
        }
        println!(
            "\nverdict: three machines, one result, bit for bit, on a good wire and on a bad one: {good}"
        );
        Ok(())
    }
}

fn job(program: &str, wire: Wire) -> Job {
    Job {
        name: "demo".into(),
        members: CAST.to_vec(),
        cores: 1,
        link: EmulatorLink::VirtioNet,
        framing: Framing::Ethernet,
        key: None,
        program: program.into(),
        count: None,
        sharing: 1,
        wire,
        deadline: Duration::from_secs(120),
        quiet: false,
        silent: false,
    }
}

fn act(job: &Job, programs: &QemuPrograms) -> Result<JobReport> {
    let report = job.play(programs)?;
    println!("{}", report.table());
    report.judge()?;
    Ok(report)
}

//! Two programs in one job: an ocean on some ranks, an atmosphere with coarser cells on the others,
//! both round the globe. Each exchanges its edges within its own communicator; every step they
//! exchange surface temperature and heat over an intercommunicator, each rank with those of the
//! other side whose cells lie above or below its own. At last both are merged into one
//! communicator, and every cell and the sum of all are compared with what one rank works out alone.
//!
//! ```text
//! aldis-run -n 5 target/release/examples/coupled --cells 4800 --steps 200
//! ```

use core::error::Error;
use core::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::allreduce;
use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{SplitChoice, free, split};
use aldis_coll::op::Sum;
use aldis_kernel::{Comm, Rank, Request, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Couple two models over an intercommunicator and compare the result with one rank's.
#[derive(Parser)]
struct Options {
    /// Cells of the ocean, a multiple of the cells below one of the atmosphere
    #[arg(long, default_value_t = 4800)]
    cells: usize,
    /// Steps in time
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

/// Cells of the ocean below one of the atmosphere.
const BELOW: usize = 4;
const EDGE: Tag = Tag(1);
const COUPLING: Tag = Tag(2);

/// A model's kind: temperatures are whole numbers of microkelvin, so that results do not depend on
/// the rank that computes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelKind {
    Ocean,
    Atmosphere,
}

impl ModelKind {
    /// Cells round the globe.
    fn cells(self, options: &Options) -> usize {
        if self == Self::Ocean { options.cells } else { options.cells / BELOW }
    }

    const fn other(self) -> Self {
        if matches!(self, Self::Ocean) { Self::Atmosphere } else { Self::Ocean }
    }

    fn start(self, cell: usize) -> i64 {
        let at = cell as i64;
        if self == Self::Ocean { 280_000_000 + at % 97 * 200_000 } else { 250_000_000 + at % 31 * 900_000 }
    }

    /// Cells of the other model that touch those of this one.
    fn touching(self, cells: &Range<usize>) -> Range<usize> {
        match self {
            Self::Ocean => cells.start / BELOW..cells.end.div_ceil(BELOW),
            Self::Atmosphere => cells.start * BELOW..cells.end * BELOW,
        }
    }

    /// The value `own` of a cell after a step: `edges` are its neighbours.
    fn step(self, cell: usize, own: i64, edges: [i64; 2], other: OtherCells<'_>) -> i64 {
        let spread = (edges[0] + edges[1] - 2 * own) / 8;
        let touching = self.touching(&(cell..cell + 1));
        let touching = &other.cells[touching.start - other.first..touching.end - other.first];
        let mean = touching.iter().sum::<i64>() / touching.len() as i64;
        own + spread + (mean - own) / if self == Self::Ocean { 64 } else { 8 }
    }
}

/// Cells of the other model, from the one `first` on.
#[derive(Clone, Copy)]
struct OtherCells<'a> {
    first: usize,
    cells: &'a [i64],
}

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| coupled(ep, &options))
}

fn coupled(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    if size < 2 || options.cells == 0 || !options.cells.is_multiple_of(BELOW) {
        return Err(format!("two ranks and a multiple of {BELOW} cells are needed").into());
    }
    // Two thirds of the ranks are the ocean.
    let oceans = (size * 2 / 3).max(1);
    let model = if me < oceans { ModelKind::Ocean } else { ModelKind::Atmosphere };
    let mut scratch = vec![SplitChoice::NONE; size as usize];
    let own = split(ep, &world, Some(model as u32), 0, &mut scratch)?.ok_or("a rank of no model")?;
    let other_leader = Rank(if model == ModelKind::Ocean { oceans } else { 0 });
    let between = inter::create(
        ep,
        Leaders { local: &own, leader: Rank(0), peer: &world, remote: other_leader, tag: COUPLING },
        &mut scratch,
    )?;

    let mut part = ModelPart::new(model, options, &own, &between);
    let start = Instant::now();
    for _ in 0..options.steps {
        part.couple(ep, &between)?;
        part.step(ep, &own)?;
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / f64::from(options.steps.max(1));

    let merged = inter::merge(ep, &between, model == ModelKind::Atmosphere)?;
    let mut sum = [part.own.iter().sum::<i64>()];
    allreduce(Sum, &mut sum, &mut [0]).run(ep, &merged)?;
    let (ocean, atmosphere) = alone(options);
    let right = if model == ModelKind::Ocean { &ocean } else { &atmosphere };
    if let Some(at) = (0..part.own.len()).find(|&at| part.own[at] != right[part.cells.start + at]) {
        return Err(format!("cell {}: {} is wrong", part.cells.start + at, part.own[at]).into());
    }
    if sum[0] != ocean.iter().chain(&atmosphere).sum::<i64>() || merged.rank().0 != me {
        return Err("the sum over both models, in the order of the world, is wrong".into());
    }
    free(ep, merged)?;
    inter::free(ep, between)?;
    free(ep, own)?;
    if me == 0 {
        report(options, oceans, size - oceans, nanoseconds);
    }
    Ok(())
}

/// The cells that rank `rank` of `ranks` has.
fn block(cells: usize, rank: u32, ranks: u32) -> Range<usize> {
    cells * rank as usize / ranks as usize..cells * (rank as usize + 1) / ranks as usize
}

/// A rank's part of its model.
struct ModelPart {
    model: ModelKind,
    cells: Range<usize>,
    own: Vec<i64>,
    /// Cells of the other model that touch these, and where they are.
    touching: Range<usize>,
    other: Vec<i64>,
    /// For each rank of the other side: which of its cells this one needs, and which of these it
    /// needs.
    partners: Vec<(Range<usize>, Range<usize>)>,
}

impl ModelPart {
    fn new(model: ModelKind, options: &Options, own: &Comm, between: &Comm) -> Self {
        let cells = block(model.cells(options), own.rank().0, own.size());
        let touching = model.touching(&cells);
        let partners = (0..between.remote_size()).map(|rank| {
            let theirs = block(model.other().cells(options), rank, between.remote_size());
            (overlap(&theirs, &touching), overlap(&cells, &model.other().touching(&theirs)))
        });
        let partners = partners.collect();
        let (own, other) = (cells.clone().map(|cell| model.start(cell)).collect(), vec![0; touching.len()]);
        Self { model, cells, own, touching, other, partners }
    }

    /// Exchanges temperatures with the other model: a message to each rank that has a cell in
    /// touch, and one from it.
    fn couple(&mut self, ep: &mut HostEndpoint, between: &Comm) -> Result<(), aldis_kernel::Error> {
        let Self { cells, own, touching, other, partners, .. } = self;
        let (own, mut rest, mut taken) = (&*own, other.as_mut_slice(), touching.start);
        ep.scope(|scope| {
            let mut requests: Vec<Request<'_>> = Vec::new();
            for (rank, (wanted, given)) in (0..).map(Rank).zip(partners.iter()) {
                if !wanted.is_empty() {
                    // Ranks of the other side have their cells in order, so these follow those of
                    // the one before.
                    let (into, behind) = core::mem::take(&mut rest).split_at_mut(wanted.end - taken);
                    (rest, taken) = (behind, wanted.end);
                    requests.push(scope.irecv(between, into, rank, COUPLING)?);
                }
                if !given.is_empty() {
                    let data = &own[given.start - cells.start..given.end - cells.start];
                    requests.push(scope.isend(between, data, rank, COUPLING)?);
                }
            }
            scope.wait_all(&mut requests)
        })
    }

    /// A step in time, after the exchange of edges within the model.
    fn step(&mut self, ep: &mut HostEndpoint, comm: &Comm) -> Result<(), aldis_kernel::Error> {
        let (rank, size) = (comm.rank().0, comm.size());
        let (before, after) = (Rank((rank + size - 1) % size), Rank((rank + 1) % size));
        let (Some(&first), Some(&last)) = (self.own.first(), self.own.last()) else { return Ok(()) };
        let (mut left, mut right) = ([last], [first]);
        if size > 1 {
            ep.sendrecv(comm, &[last], after, EDGE, &mut left, before, EDGE)?;
            ep.sendrecv(comm, &[first], before, EDGE, &mut right, after, EDGE)?;
        }
        let old = self.own.clone();
        for (at, own) in self.own.iter_mut().enumerate() {
            let before = if at == 0 { left[0] } else { old[at - 1] };
            let after = old.get(at + 1).copied().unwrap_or(right[0]);
            let cell = self.cells.start + at;
            let other = OtherCells { first: self.touching.start, cells: &self.other };
            *own = self.model.step(cell, old[at], [before, after], other);
        }
        Ok(())
    }
}

fn overlap(left: &Range<usize>, right: &Range<usize>) -> Range<usize> {
    let start = left.start.max(right.start);
    start..left.end.min(right.end).max(start)
}

/// Both models on one rank.
fn alone(options: &Options) -> (Vec<i64>, Vec<i64>) {
    let all = |model: ModelKind| (0..model.cells(options)).map(|cell| model.start(cell)).collect::<Vec<_>>();
    let (mut ocean, mut atmosphere) = (all(ModelKind::Ocean), all(ModelKind::Atmosphere));
    let step = |model: ModelKind, own: &[i64], other: &[i64]| {
        let cells = own.len();
        let next = |cell: usize| {
            let edges = [own[(cell + cells - 1) % cells], own[(cell + 1) % cells]];
            model.step(cell, own[cell], edges, OtherCells { first: 0, cells: other })
        };
        (0..cells).map(next).collect()
    };
    for _ in 0..options.steps {
        (ocean, atmosphere) =
            (step(ModelKind::Ocean, &ocean, &atmosphere), step(ModelKind::Atmosphere, &atmosphere, &ocean));
    }
    (ocean, atmosphere)
}

fn report(options: &Options, oceans: u32, atmospheres: u32, nanoseconds: f64) {
    if options.json {
        let line = serde_json::json!({
            "bench": "coupled", "impl": "aldis", "ranks": oceans + atmospheres, "ocean": oceans,
            "atmosphere": atmospheres, "cells": options.cells, "steps": options.steps, "step_ns": nanoseconds,
            "verified": true,
        });
        println!("{line}");
    } else {
        println!(
            "{} steps of an ocean on {oceans} ranks and an atmosphere on {atmospheres}, every cell verified, \
             {:.1} us a step",
            options.steps,
            nanoseconds / 1e3
        );
    }
}

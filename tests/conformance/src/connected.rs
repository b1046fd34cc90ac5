//! Ranks as threads of this process that are joined by TCP on its loopback, or over any transport
//! whose addresses are on cards.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use aldis_hal::{PeerId, Transport};
use aldis_kernel::Composite;
use aldis_linux::cores::CoreMeeting;
use aldis_linux::tcp::{Family, Interfaces, JobKey, Tcp, TcpConfig, TcpIdentity};
use aldis_tests::storage::{REQUESTS, boxed};
use aldis_tests::threads::{EPOCH, HANG, Host, endpoint, frames, loopback, rank_config, serve};
use aldis_tests::watch::{Watch, verdict, words};

use super::plan::CasePlan;
use super::rank::play;

/// Returns the configuration that a seed draws: either family; sockets that take little, so that
/// messages are cut; several links.
fn config(seed: u64) -> TcpConfig {
    let family = if seed & 1 == 0 { Family::V4 } else { Family::V6 };
    let interfaces = Interfaces { include: vec!["lo".into()], exclude: Vec::new(), family: Some(family) };
    let little = (seed & 2 != 0).then_some(4096);
    let links = if seed & 4 == 0 { 1 } else { 3 };
    TcpConfig { interfaces, links, send_buffer: little, receive_buffer: little, ..TcpConfig::default() }
}

/// Runs a case over TCP.
pub(super) fn run(plan: &CasePlan) -> Result<(), String> {
    let key = JobKey::random().map_err(|error| error.to_string())?;
    let listen = |me| {
        let identity = TcpIdentity { me: PeerId(me), epoch: EPOCH, ranks: plan.ranks, key: JobKey::new(key) };
        let tcp = Tcp::listen(identity, &config(plan.seed));
        tcp.map_err(|error| error.to_string())
    };
    run_over(plan, listen, Tcp::address)
}

/// Runs a case over what `open` makes for each rank, whose `address` the others are told.
pub(super) fn run_over<T: Transport>(
    plan: &CasePlan,
    open: impl Fn(u32) -> Result<T, String> + Sync,
    address: impl Fn(&T) -> Vec<u8> + Sync,
) -> Result<(), String> {
    let &CasePlan { case, seed, ranks: size } = plan;
    let (watch, meeting) = (Watch::new(size, HANG), CoreMeeting::of(size));
    let rank = |me: u32| {
        let (mut storage, mut frames) = (boxed(plan.room()), frames());
        let ways = Composite::new(loopback(me, &mut frames), open(me)?);
        let mut endpoint = endpoint(storage.memory(), ways, Host::new(me, &watch), rank_config(me, size));
        let mut card = endpoint.card();
        let address = address(endpoint.transport().second());
        card.address.extend_from_slice(&address).expect("room for an address");
        meeting.join(&mut endpoint, card).expect("ranks of one job");
        serve(&watch, &mut endpoint, |endpoint| {
            play(case, seed, endpoint, REQUESTS).map_err(|error| error.to_string())
        })
    };
    let rank = |me| catch_unwind(AssertUnwindSafe(|| rank(me))).unwrap_or_else(|panic| Err(words(&*panic)));
    let ended = thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|me| scope.spawn(move || rank(me))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("a panic is caught within");
        threads.into_iter().map(join).collect()
    });
    verdict(ended).map(drop)
}

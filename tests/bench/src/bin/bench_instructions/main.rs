//! This program holds `unsafe` code: two ranks of one process map each other's shared-memory inbox.
//!
//! What `cargo xtask bench instructions` counts under callgrind: the calls that an 8-byte message
//! takes, each a function of its own here, in as many repetitions as the first argument says. The
//! second says how it is received: by a blocking receive, by one that is called after the message
//! has been taken in, or by one that was posted before it came, of bytes or as an element of a
//! datatype; or it names a collective.

mod collectives;

use core::error::Error;
use core::hint::black_box;
use core::ptr::NonNull;

use aldis_bench::Still;
use aldis_drivers::shm::{Geometry, Identity, Lane, Region, format};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cost, Epoch, PeerId};
use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::{
    Comm, Composite, Config, Endpoint, Rank, Request, Scope, Status, Storage, Tag, Typed, TypedMut,
    storage_type,
};

type Wire = Composite<Loopback<'static>, Shm<'static>>;
type One = Endpoint<'static, Wire, Still>;
type Running<'a, 'e> = Scope<'a, 'e, 'static, Wire, Still>;
type Room = storage_type!(2, 64, 2, 32, 8, 8192, 8, 256);

/// The send: on the wire when it returns.
#[inline(never)]
fn start_send<'a>(
    scope: &mut Running<'a, '_>,
    world: &Comm,
    data: &'a [u8],
) -> Result<Request<'a>, aldis_kernel::Error> {
    scope.isend(world, data, Rank(1), Tag(0))
}

/// The send of an element.
#[inline(never)]
fn start_element_send<'a>(
    scope: &mut Running<'a, '_>,
    world: &Comm,
    data: &'a [u8],
) -> Result<Request<'a>, aldis_kernel::Error> {
    scope.isend_typed(world, Typed::new(data, 1, Basic::F64), Rank(1), Tag(0))
}

/// The blocking receive: from what has come, or will come while it waits.
#[inline(never)]
fn take_receive(endpoint: &mut One, world: &Comm, buffer: &mut [u8]) -> Result<Status, aldis_kernel::Error> {
    endpoint.recv(world, buffer, Rank(0), Tag(0))
}

/// The receive that does not block.
#[inline(never)]
fn post_receive<'a>(
    scope: &mut Running<'a, '_>,
    world: &Comm,
    buffer: &'a mut [u8],
) -> Result<Request<'a>, aldis_kernel::Error> {
    scope.irecv(world, buffer, Rank(0), Tag(0))
}

/// The receive of an element that does not block.
#[inline(never)]
fn post_element_receive<'a>(
    scope: &mut Running<'a, '_>,
    world: &Comm,
    buffer: &'a mut [u8],
) -> Result<Request<'a>, aldis_kernel::Error> {
    scope.irecv_typed(world, TypedMut::new(buffer, 1, Basic::F64), Rank(0), Tag(0))
}

/// The poll that finds the message and gives it to the receive.
#[inline(never)]
fn poll_arrival(scope: &mut Running<'_, '_>) -> u32 {
    scope.poll(8)
}

/// The wait for what is complete.
#[inline(never)]
fn finish_receive<'a>(
    scope: &mut Running<'a, '_>,
    request: Request<'a>,
) -> Result<Status, aldis_kernel::Error> {
    scope.wait(request)
}

/// The way in which the message is received.
#[derive(Clone, Copy, PartialEq)]
enum ReceiveWay {
    Blocking,
    Unexpected,
    Posted,
    /// Posted before, as an element of a datatype.
    Element,
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: REPETITIONS blocking|unexpected|posted|element|COLLECTIVE";
    let repetitions: u32 = std::env::args().nth(1).ok_or(usage)?.parse()?;
    let how = std::env::args().nth(2).ok_or(usage)?;
    if let Some(kind) = collectives::CollectiveKind::named(&how) {
        return collectives::run(kind, repetitions, &mut pair()?);
    }
    let receive = match how.as_str() {
        "blocking" => ReceiveWay::Blocking,
        "unexpected" => ReceiveWay::Unexpected,
        "posted" => ReceiveWay::Posted,
        "element" => ReceiveWay::Element,
        _ => return Err(usage.into()),
    };
    let [mut one, mut other] = pair()?;
    let worlds = [one.world(), other.world()];
    let (data, mut buffer) = (black_box([7_u8; 8]), [0_u8; 8]);
    let mut send =
        || one.scope(|scope| start_send(scope, &worlds[0], &data).and_then(|request| scope.wait(request)));
    if receive == ReceiveWay::Element {
        return exchange_elements(repetitions, [&mut one, &mut other]);
    }
    for _ in 0..repetitions {
        if receive == ReceiveWay::Posted {
            other.scope(|scope| {
                let request = post_receive(scope, &worlds[1], &mut buffer)?;
                send()?;
                poll_arrival(scope);
                finish_receive(scope, request)
            })?;
            continue;
        }
        send()?;
        if receive == ReceiveWay::Unexpected {
            other.poll(8);
        }
        take_receive(&mut other, &worlds[1], &mut buffer)?;
    }
    if buffer == data { Ok(()) } else { Err("the message arrived torn".into()) }
}

/// Sends an element again and again to a receive that was posted for it.
fn exchange_elements(repetitions: u32, [one, other]: [&mut One; 2]) -> Result<(), Box<dyn Error>> {
    let worlds = [one.world(), other.world()];
    let (data, mut buffer) = (black_box([7_u8; 8]), [0_u8; 8]);
    for end in [&mut *one, &mut *other] {
        end.attach_types(Box::leak(Box::new(TypeTable::<1, 1>::new())).types())?;
    }
    for _ in 0..repetitions {
        other.scope(|scope| {
            let request = post_element_receive(scope, &worlds[1], &mut buffer)?;
            one.scope(|scope| {
                start_element_send(scope, &worlds[0], &data).and_then(|request| scope.wait(request))
            })?;
            poll_arrival(scope);
            finish_receive(scope, request)
        })?;
    }
    if buffer == data { Ok(()) } else { Err("the element arrived torn".into()) }
}

/// Two ranks that reach each other over rings and themselves over a loopback, as on a host.
fn pair() -> Result<[One; 2], Box<dyn Error>> {
    let geometry =
        Geometry { peers: 2, slots: 64, lanes: Geometry::LANES_MAX, blocks: 8, block_bytes: 8192, sets: 1 };
    let bytes = geometry.inbox_bytes();
    let identity = |rank: u32| Identity { job: 1, owner: PeerId(rank), epoch: Epoch(rank + 1) };
    let inboxes = [inbox(bytes)?, inbox(bytes)?];
    for (rank, inbox) in (0..).zip(inboxes) {
        // SAFETY: the inbox is as long as this, aligned to a line, and lives for ever.
        format(&unsafe { Region::new(inbox, bytes) }, geometry, identity(rank))?;
    }
    let mut ranks = Vec::new();
    for rank in 0..2 {
        let (mine, theirs) = (inboxes[rank as usize], inboxes[1 - rank as usize]);
        let lanes = (0..geometry.lane_entries()).map(|_| Lane::EMPTY).collect::<Vec<_>>().leak();
        let cost = Cost { overhead_ns: 20, latency_ns: 150, per_kib_ns: 100 };
        // SAFETY: as above; both ends keep to the protocol of the rings.
        let mut shm = Shm::new(identity(rank), unsafe { Region::new(mine, bytes) }, lanes, cost)?;
        // SAFETY: as above.
        shm.attach(PeerId(1 - rank), unsafe { Region::new(theirs, bytes) }, identity(1 - rank))?;
        let loopback = Loopback::new(PeerId(rank), Box::leak(vec![0; 65536].into_boxed_slice()), 8192)?;
        let config = Config { me: PeerId(rank), size: 2, epoch: identity(rank).epoch };
        let storage: &'static mut Room = Box::leak(Box::new(Storage::new()));
        ranks.push(Endpoint::new(storage.memory(), Composite::new(loopback, shm), Still, config)?);
    }
    let cards: Vec<_> = ranks.iter().map(|rank| rank.card()).collect();
    for (rank, card) in ranks.iter_mut().zip(cards.iter().rev()) {
        rank.connect(card)?;
    }
    ranks.try_into().map_err(|_| "two ranks".into())
}

/// Zeroed memory aligned to a cache line, never freed.
fn inbox(bytes: usize) -> Result<NonNull<u8>, Box<dyn Error>> {
    let memory = Box::leak(vec![0_u64; bytes / 8 + 16].into_boxed_slice());
    let start = NonNull::from(memory).cast::<u8>();
    // SAFETY: the vector is 128 bytes longer than asked for.
    Ok(unsafe { start.add(start.align_offset(64)) })
}

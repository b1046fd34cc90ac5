//! The exchange: every kind of data, in messages of every protocol, received in every way, in both
//! directions.

use core::error::Error;

use aldis_kernel::datatype::{Basic, Committed, Form};
use aldis_kernel::hal::Cause;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::protocols::card::WordWidth;
use aldis_kernel::{Comm, Rank as Number, Status, Tag, Typed, TypedMut};

use crate::data::{Kind, blank, filled, refused};
use crate::{LIMIT, Rank};

/// Elements of a message that is inline or eager, of one that is announced, and of one of many
/// fragments.
const COUNTS: [u64; 3] = [1, 40, 1500];

/// The receiver's way of receiving.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The receive is there before the message is sent.
    Expected,
    /// The message is probed for, its elements counted, then it is received.
    Probed,
    /// The message is probed for by a matched probe, its elements counted, then it is received.
    Matched,
    /// Memory for two elements more than come.
    Roomy,
}

const WAYS: [Way; 4] = [Way::Expected, Way::Probed, Way::Matched, Way::Roomy];

const DATA: Tag = Tag(1);
const GO: Tag = Tag(2);

/// The count and digest of what has been exchanged so far.
#[derive(Default)]
struct ExchangeSum {
    messages: u32,
    digest: u64,
}

/// Exchanges everything; what there is to say of it.
pub(crate) fn run(endpoint: &mut Rank, theirs: WordWidth) -> Result<String, Box<dyn Error>> {
    let (world, mut sum) = (endpoint.world(), ExchangeSum::default());
    for kind in Kind::ALL {
        let datatype = kind.build(endpoint.types()?).map_err(refused)?;
        for (count, way) in COUNTS.into_iter().flat_map(|count| WAYS.map(|way| (count, way))) {
            for sender in [Number(0), Number(1)] {
                let seed = u64::from(sum.messages) << 20;
                let (memory, digest) = filled(endpoint.types()?, datatype, count, seed)?;
                if world.rank() == sender {
                    send(endpoint, &world, (&memory, count, datatype), way)?;
                } else {
                    receive(endpoint, &world, (&memory, count, datatype), way)
                        .map_err(|error| format!("{count} of {kind:?}, {way:?}: {error}"))?;
                }
                sum.messages += 1;
                sum.digest = (sum.digest.rotate_left(1) ^ digest).wrapping_mul(0x100_0000_01B3);
            }
        }
    }
    mistaken(endpoint, &world)?;
    portable(endpoint, &world)?;
    if theirs != WordWidth::NATIVE {
        too_wide(endpoint, &world)?;
    }
    Ok(format!("messages={} digest={:016x}", sum.messages, sum.digest))
}

fn other(world: &Comm) -> Number {
    Number(1 - world.rank().0)
}

type ExchangeData<'a> = (&'a [u8], u64, Committed);

fn send(
    endpoint: &mut Rank,
    world: &Comm,
    (memory, count, datatype): ExchangeData<'_>,
    way: Way,
) -> Result<(), Box<dyn Error>> {
    let mut within = endpoint.within(LIMIT);
    if let Way::Expected = way {
        within.recv::<u8>(world, &mut [], other(world), GO)?;
    }
    within.send_typed(world, Typed::new(memory, count, datatype).checked(), other(world), DATA)?;
    Ok(())
}

fn receive(
    endpoint: &mut Rank,
    world: &Comm,
    (sent, count, datatype): ExchangeData<'_>,
    way: Way,
) -> Result<(), Box<dyn Error>> {
    let (from, room) = (other(world), if let Way::Roomy = way { count + 2 } else { count });
    let mut memory = blank(endpoint.types()?, datatype, room)?;
    let form = endpoint.form_from(world, from)?;
    let mut probed = None;
    let status: Status = {
        let into = TypedMut::new(&mut memory, room, datatype);
        let mut within = endpoint.within(LIMIT);
        match way {
            Way::Expected => within.scope(|s| {
                let receiving = s.irecv_typed(world, into, from, DATA)?;
                let going = s.isend::<u8>(world, &[], from, GO)?;
                s.wait(going)?;
                s.wait(receiving)
            })?,
            Way::Roomy => within.recv_typed(world, into, from, DATA)?,
            Way::Probed => {
                probed = Some(within.probe(world, from, DATA)?);
                within.recv_typed(world, into, from, DATA)?
            }
            Way::Matched => {
                let message = within.mprobe(world, from, DATA)?;
                probed = Some(message.status());
                within.mrecv_typed(message, into)?
            }
        }
    };
    let types = endpoint.types()?;
    let counted = probed.map(|status| types.count(datatype, form, status.bytes)).unwrap_or(Ok(count));
    if [counted?, types.count(datatype, Form::Native, status.bytes)?] != [count; 2] {
        return Err(format!("counted otherwise: {probed:?}, {status:?}").into());
    }
    let blank = blank(types, datatype, room)?;
    let (data, rest) = memory.split_at(sent.len());
    if data != sent || rest != &blank[sent.len()..] {
        let place = memory.iter().zip(sent).position(|(got, sent)| got != sent);
        return Err(format!("other data than was sent, from byte {place:?} of memory on").into());
    }
    Ok(())
}

/// Data that is sent as one type and received as another is noticed, whatever the machines.
fn mistaken(endpoint: &mut Rank, world: &Comm) -> Result<(), Box<dyn Error>> {
    let mut within = endpoint.within(LIMIT);
    if world.rank() == Number(0) {
        within.send_typed(world, Typed::new(&[1.5f64, 2.5], 2, Basic::F64), other(world), DATA)?;
        return Ok(());
    }
    let mut memory = [0u64; 2];
    let received = within.recv_typed(world, TypedMut::new(&mut memory, 2, Basic::U64), other(world), DATA);
    match received.map_err(|error| error.cause) {
        Err(Cause::SignatureMismatch { .. }) => Ok(()),
        other => Err(format!("doubles came as integers: {other:?}").into()),
    }
}

/// A word that the narrower machine cannot hold is refused by name, and its receiver is told.
fn too_wide(endpoint: &mut Rank, world: &Comm) -> Result<(), Box<dyn Error>> {
    let mut within = endpoint.within(LIMIT);
    let result = if WordWidth::NATIVE == WordWidth::Eight {
        within.send_typed(world, Typed::new(&[isize::MIN], 1, Basic::Isize), other(world), DATA)
    } else {
        within.recv_typed(world, TypedMut::new(&mut [0isize], 1, Basic::Isize), other(world), DATA)
    };
    match result.map_err(|error| error.cause) {
        Err(Cause::Unrepresentable { magnitude, negative: true, bytes: 4 })
            if magnitude == isize::MIN.unsigned_abs() as u64 && WordWidth::NATIVE == WordWidth::Eight =>
        {
            Ok(())
        }
        Err(Cause::Withdrawn) if WordWidth::NATIVE == WordWidth::Four => Ok(()),
        other => Err(format!("a word that does not fit: {other:?}").into()),
    }
}

/// Data packed as external32 is the same bytes on every machine, and needs no typed message.
fn portable(endpoint: &mut Rank, world: &Comm) -> Result<(), Box<dyn Error>> {
    let datatype = Kind::Record.build(endpoint.types()?).map_err(refused)?;
    let types = endpoint.types()?;
    let (memory, _) = filled(types, datatype, 5, 77)?;
    let mut packed = vec![0; types.pack_size(datatype, 5, Form::External32)? as usize];
    types.pack(Form::External32, &memory, 5, datatype, &mut packed, &mut 0)?;
    let mut received = vec![0u8; packed.len()];
    endpoint.within(LIMIT).sendrecv(world, &packed, other(world), DATA, &mut received, other(world), DATA)?;
    if received != packed {
        return Err("external32 is not the same everywhere".into());
    }
    Ok(())
}

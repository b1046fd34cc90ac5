//! The interfaces of this machine.

use core::error::Error;
use core::fmt::Write;

use aldis_hal::nic::Mac;
use aldis_nic::{CardChoice, CardKind, XdpNic};
use aldis_sys::file::{AccessFlags, access};
use aldis_sys::interface::{IFF_RUNNING, IFF_UP, TUN_DEVICE, interface, interface_names};
use serde_json::json;

use crate::station::{BenchStation, WrittenMac};

/// An interface, and whether a job can use it.
struct ListedCard {
    name: String,
    state: &'static str,
    mtu: u32,
    mac: String,
    /// The reasons why it cannot be used, with what to do: as each of [`KINDS`].
    refused: [Option<String>; KINDS.len()],
}

/// The kinds of card that an interface can be.
const KINDS: [CardKind; 2] = [CardKind::Packet, CardKind::Xdp];

impl ListedCard {
    /// Each card that it can be, and the reason why not.
    fn cards(&self) -> impl Iterator<Item = (String, Option<&str>)> {
        let named = KINDS.map(|kind| format!("{}:{}", kind.name(), self.name));
        named.into_iter().zip(self.refused.iter().map(Option::as_deref))
    }
}

/// Lists them.
pub(crate) fn run(as_json: bool) -> Result<String, Box<dyn Error>> {
    let names = interface_names().map_err(|errno| format!("if_nameindex failed: {}", errno.desc()))?;
    let all: Vec<ListedCard> = names.into_iter().filter_map(describe).collect();
    let taps = access(TUN_DEVICE, AccessFlags::R_OK | AccessFlags::W_OK);
    let no_taps = taps.err().map(|errno| format!("{TUN_DEVICE}: {}", errno.desc()));
    if as_json {
        let cards = all.iter().flat_map(|one| {
            one.cards().map(move |(card, refused)| {
                json!({
                    "card": card, "state": one.state, "mtu": one.mtu, "mac": one.mac, "refused": refused,
                })
            })
        });
        return Ok(json!({"cards": Vec::from_iter(cards), "taps_refused": no_taps}).to_string());
    }
    let width = all.iter().map(|one| one.name.len() + 7).max().unwrap_or(0).max(10);
    let mut text = format!("{:width$}  {:10}  {:>5}  {:17}  usable", "card", "state", "MTU", "address");
    for one in &all {
        let ListedCard { state, mtu, mac, .. } = one;
        for (card, refused) in one.cards() {
            let usable = refused.map_or_else(|| "yes".into(), |reason| format!("no: {reason}"));
            write!(text, "\n{card:width$}  {state:10}  {mtu:>5}  {mac}  {usable}")?;
        }
    }
    let usable =
        no_taps.map_or_else(|| "yes, of one's own (docs/cards.md)".into(), |reason| format!("no: {reason}"));
    for (card, usable) in [("tap:IF", usable), ("memif:PATH", "yes, of a server (docs/cards.md)".into())] {
        write!(text, "\n{card:width$}  {:10}  {:>5}  {:17}  {usable}", "-", "-", "-")?;
    }
    Ok(text)
}

/// An interface that may be gone by now.
fn describe(name: String) -> Option<ListedCard> {
    let state = interface(&name).ok()?;
    let refused = KINDS.map(|kind| {
        let choice = CardChoice::plain(kind, name.clone());
        // A program that is attached to an interface for a moment may stop its frames for longer.
        let tried = if kind == CardKind::Xdp {
            XdpNic::check(&choice)
        } else {
            BenchStation::open(&choice).map(drop)
        };
        tried.err().map(|error| error.to_string())
    });
    let words = match (state.has(IFF_UP), state.has(IFF_RUNNING)) {
        (false, _) => "down",
        (true, false) => "no carrier",
        (true, true) => "up",
    };
    Some(ListedCard {
        name,
        state: words,
        mtu: state.mtu,
        mac: WrittenMac(Mac(state.mac)).to_string(),
        refused,
    })
}
